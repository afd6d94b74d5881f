// The job of main.tf: {"numbers": [100, 200, 300]} gives {"sum": 600}.
export function handle(event) {
  const numbers = Array.isArray(event.numbers) ? event.numbers : [];
  return { sum: numbers.reduce((sum, number) => sum + Number(number), 0) };
}

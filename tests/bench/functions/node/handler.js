exports.handle = (event) => ({ message: `Hello, ${event.name ?? "world"}!` });

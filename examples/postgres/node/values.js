// What a careless caller sent, as values that are safe to use.
export const fieldsOf = (event) => (event !== null && typeof event === "object" && !Array.isArray(event) ? event : {});

// PostgreSQL has no NUL in texts, and UTF-8 no lone surrogates.
export const textOf = (value, fallback = "") =>
  typeof value === "string" ? value.replaceAll("\0", "").replace(/\p{Surrogate}/gu, "\ufffd") : fallback;

export const numberOf = (value, fallback, most) =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? Math.min(Math.floor(value), most) : fallback;

export const badRequest = (message) => ({ statusCode: 400, body: { error: message } });

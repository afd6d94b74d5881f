// Converts a careless caller's input to safe values.
export const fieldsOf = (event) => (event !== null && typeof event === "object" && !Array.isArray(event) ? event : {});

// PostgreSQL texts cannot contain NUL, nor UTF-8 lone surrogates.
export const textOf = (value, fallback = "") =>
  typeof value === "string" ? value.replaceAll("\0", "").replace(/\p{Surrogate}/gu, "\ufffd") : fallback;

export const numberOf = (value, fallback, most) =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? Math.min(Math.floor(value), most) : fallback;

export const badRequest = (message) => ({ statusCode: 400, body: { error: message } });

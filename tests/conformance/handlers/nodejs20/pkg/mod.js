exports.fn = (event) => ({ double: event.n * 2 });

exports.hello = (request, response) => response.json({ message: `Hello, ${request.body?.name ?? "world"}!` });

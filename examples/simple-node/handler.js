const slugify = require("slugify");

exports.handle = (event) => {
  const title = String(event.title ?? "Crème brûlée & friends");
  return { title, slug: slugify(title, { lower: true, strict: true }) };
};

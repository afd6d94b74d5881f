exports.other = 1;

exports.some_function = (event) => event;

exports.not_callable = 3;

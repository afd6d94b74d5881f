"""Names as the web framework Rails forms them: GET ?word=octopus, or POST {"word": "octopus"}."""

import inflection


def handle(event, context):
    word = event.get("word")
    if not isinstance(word, str) or not word.strip():
        return {"error": f"word: expected a word, found {word!r}"}, 400
    singular = inflection.singularize(word.strip())
    return {
        "singular": singular,
        "plural": inflection.pluralize(singular),
        "class": inflection.camelize(inflection.parameterize(singular, "_")),
        "table": inflection.tableize(inflection.parameterize(singular, "_")),
    }

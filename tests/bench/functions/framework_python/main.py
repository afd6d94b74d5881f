import functions_framework


@functions_framework.http
def hello(request):
    event = request.get_json(silent=True) or {}
    return {"message": f"Hello, {event.get('name', 'world')}!"}

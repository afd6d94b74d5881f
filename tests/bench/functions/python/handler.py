def handle(event):
    return {"message": f"Hello, {event.get('name', 'world')}!"}

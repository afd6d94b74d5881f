package broken_nothing

var NotCallable = 3

func SomeFunction(event any) any { return event }

func NeedsThree(a, b, c any) any { return a }

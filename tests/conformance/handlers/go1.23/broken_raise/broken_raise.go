package broken_raise

import "fmt"

func init() {
	fmt.Println("before it broke")
	panic("broken while imported")
}

func Handle(event any) any { return event }

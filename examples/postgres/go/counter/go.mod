module counter

go 1.23

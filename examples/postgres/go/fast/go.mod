module fast

go 1.23

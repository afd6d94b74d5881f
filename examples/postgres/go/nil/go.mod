module nil

go 1.23

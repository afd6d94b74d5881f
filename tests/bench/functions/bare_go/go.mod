module bare

go 1.23

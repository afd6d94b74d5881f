module sless.internal/runtime

go 1.18

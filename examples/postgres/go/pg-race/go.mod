module pgrace

go 1.23

module paramedic/tools/mutate

go 1.26.0

module paramedic/tools/bars

go 1.26.0

package remediate

func reasonOf(r string) string {
	if r == "" {
		return ""
	}
	return ": " + r
}

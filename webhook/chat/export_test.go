package chat

// What the tests call from outside.
var (
	VerifySlack = verifySlack
	DecodeClick = decodeClick
)

// ReplyAllowed reports whether a reply may go to the URL.
func (s *Chat) ReplyAllowed(to string) bool { return s.replyAllowed(to) }

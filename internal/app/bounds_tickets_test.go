package app_test

// ticketTries are the bounds of conversations with support. Their office has a clock that a test can move, which hours
// and thousands of messages need.
var ticketTries = map[string]try{
	"message to support":                                triedBy("operate/ticket", "TestBegin", "400"),
	"subject of a conversation":                         triedBy("operate/ticket", "TestBegin", "400"),
	"messages of a conversation":                        triedBy("operate/ticket", "TestBounds", "409"),
	"open conversations of an account":                  triedBy("operate/ticket", "TestBounds", "429"),
	"conversations that an account begins in a day":     triedBy("operate/ticket", "TestBounds", "429"),
	"messages that an account writes in a day":          triedBy("operate/ticket", "TestBounds", "429"),
	"conversations that are kept of an account":         triedBy("operate/ticket", "TestKept", "the oldest closed ones go"),
	"page of the queue of support":                      triedBy("operate/ticket", "TestKept", "200 are returned"),
	"pause between mails to staff about a conversation": triedBy("operate/ticket", "TestMail", "no mail"),
}

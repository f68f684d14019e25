package app_test

// matterTries are the bounds of conversations with support. Their office has a clock that a test can move, which hours
// and thousands of messages need.
var matterTries = map[string]try{
	"message to support":                                triedBy("operate/matter", "TestBegin", "400"),
	"subject of a conversation":                         triedBy("operate/matter", "TestBegin", "400"),
	"messages of a conversation":                        triedBy("operate/matter", "TestBounds", "409"),
	"open conversations of an account":                  triedBy("operate/matter", "TestBounds", "429"),
	"conversations that an account begins in a day":     triedBy("operate/matter", "TestBounds", "429"),
	"messages that an account writes in a day":          triedBy("operate/matter", "TestBounds", "429"),
	"conversations that are kept of an account":         triedBy("operate/matter", "TestKept", "the oldest closed ones go"),
	"page of the queue of support":                      triedBy("operate/matter", "TestKept", "200 are returned"),
	"pause between mails to staff about a conversation": triedBy("operate/matter", "TestMail", "no mail"),
}

// Package responses speaks OpenAI's Responses dialect: it reads requests and writes replies.
//
// Parse reads a body into a Request. Compose turns it, and the earlier items that it refers to, into an equal chat.Request,
// so that everything behind the door sees the one kind of request. No JSON is written for that. A Writer is the relay.Dialect
// of one reply: it writes the events of a stream in their order, or one Response object. Archive keeps what store asks
// for, encrypted, so that later requests can refer to it.
//
// Errors name the fields of this dialect; Rename translates those of a fault that was made behind the door.
// Which fields are read, and what becomes of those that are not, is in docs/api.md#responses.
package responses

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"sluice/internal/upstream/routing"
)

// FindConversation returns the model of a conversation, or "" if there is none or its time is over.
func (s *Store) FindConversation(ctx context.Context, id routing.ConversationID) (model string, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT model FROM conversation_models WHERE id = $1 AND until_at > `+s.Clock(), id[:]).Scan(&model)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return model, unavailable(err)
}

// KeepConversations stores the models of conversations for the time life. The ids must differ and be in
// order, so that two nodes that store the same ones cannot deadlock.
func (s *Store) KeepConversations(ctx context.Context, list []routing.Conversation, life time.Duration) error {
	for len(list) > 0 {
		// Statements of few sizes, so that connections keep them prepared.
		n := keepAtOnce
		for n > len(list) {
			n /= 4
		}
		if err := s.keepConversations(ctx, list[:n], life); err != nil {
			return unavailable(err)
		}
		list = list[n:]
	}
	return nil
}

// keepAtOnce is how many conversations one statement stores at most. It is a power of four.
const keepAtOnce = 256

// keepConversations is KeepConversations in one statement.
func (s *Store) keepConversations(ctx context.Context, list []routing.Conversation, life time.Duration) error {
	var rows strings.Builder
	args := []any{life.Milliseconds()}
	for i, c := range list {
		if i > 0 {
			rows.WriteString(", ")
		}
		rows.WriteString("(" + numbered(len(args)+1, 2) + ", " + s.Clock() + " + $1, 0)")
		args = append(args, c.ID[:], c.Model)
	}
	_, err := s.write.ExecContext(ctx, `INSERT INTO conversation_models AS old (id, model, until_at, moved_at) VALUES `+rows.String()+`
		ON CONFLICT (id) DO UPDATE SET model = excluded.model, until_at = excluded.until_at,
		moved_at = CASE WHEN old.model = excluded.model THEN old.moved_at ELSE `+s.Clock()+` END`, args...)
	return err
}

// MovedConversations returns up to most conversations that have changed their model within the last span, the
// latest first.
func (s *Store) MovedConversations(ctx context.Context, span time.Duration, most int) (list []routing.Conversation, err error) {
	err = each(ctx, s.read, func(rows *sql.Rows) error {
		var id []byte
		var c routing.Conversation
		if err := rows.Scan(&id, &c.Model); err != nil {
			return err
		}
		copy(c.ID[:], id)
		list = append(list, c)
		return nil
	}, `SELECT id, model FROM conversation_models WHERE moved_at > 0 AND moved_at > `+s.Clock()+` - $1 AND until_at > `+s.Clock()+` ORDER BY moved_at DESC LIMIT $2`,
		span.Milliseconds(), most)
	return list, unavailable(err)
}

// dropConversations deletes up to most conversations whose time is over.
func (s *Store) dropConversations(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.deleteSome(ctx, "conversation_models", `until_at <= `+s.Clock(), most)
}

package kept

import (
	"context"
	"strconv"
	"strings"
	"time"

	"sluice/internal/store/sqlstore"
	"sluice/internal/upstream/routing"
)

// FindConversation returns the model of a conversation, or "" if there is none or its time is over.
func (s *Store) FindConversation(ctx context.Context, id routing.ConversationID) (model string, err error) {
	return sqlstore.Optional[string](s.db.Read(ctx), `SELECT model FROM conversation_models WHERE id = $1 AND until_at > `+s.db.Clock(), id[:])
}

// KeepConversations stores the models of conversations for the time life, or what else of them must be told. The ids must
// differ and be in order, so that two nodes that store the same ones cannot deadlock.
func (s *Store) KeepConversations(ctx context.Context, list []routing.Conversation, life time.Duration) error {
	for len(list) > 0 {
		// Statements of few sizes, so that connections keep them prepared.
		n := keepAtOnce
		for n > len(list) {
			n /= 4
		}
		if err := s.keepConversations(ctx, list[:n], life); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// keepAtOnce is how many conversations one statement stores at most. It is a power of four.
const keepAtOnce = 256

// keepConversations is KeepConversations in one statement.
func (s *Store) keepConversations(ctx context.Context, list []routing.Conversation, life time.Duration) error {
	rows, args := make([]string, len(list)), []any{life}
	for i, c := range list {
		// A number and no word of the statement, so that there are few statements.
		moved := int64(0)
		if c.Moved {
			moved = 1
		}
		rows[i] = "(" + sqlstore.Numbered(len(args)+1, 2) + ", " + s.db.Clock() + " + $1, " + s.db.Clock() + " * $" + strconv.Itoa(len(args)+3) + ")"
		args = append(args, c.ID[:], c.Model, moved)
	}
	return s.db.Write(ctx).Exec(`INSERT INTO conversation_models AS old (id, model, until_at, moved_at) VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (id) DO UPDATE SET model = excluded.model, until_at = excluded.until_at,
		moved_at = CASE WHEN old.model = excluded.model THEN old.moved_at ELSE `+s.db.Clock()+` END`, args...)
}

// MovedConversations returns up to most conversations that have changed their model within the last span, the
// latest first.
func (s *Store) MovedConversations(ctx context.Context, span time.Duration, most int) ([]routing.Conversation, error) {
	return sqlstore.All(s.db.Read(ctx), func(row sqlstore.Row, c *routing.Conversation) error {
		return row.Scan(sqlstore.Into(c.ID[:]), &c.Model)
	}, `SELECT id, model FROM conversation_models WHERE moved_at > 0 AND moved_at > `+s.db.Clock()+` - $1 AND until_at > `+s.db.Clock()+` ORDER BY moved_at DESC LIMIT $2`, span, most)
}

// dropConversations deletes up to most conversations whose time is over.
func (s *Store) dropConversations(ctx context.Context, _ time.Time, most int) (int, error) {
	return s.db.DeleteSome(ctx, "conversation_models", `until_at <= `+s.db.Clock(), most)
}

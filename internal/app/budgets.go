package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/ledger/budget"
)

const (
	// topicBudget is on what nodes ask each other to give back what they do not need of a budget.
	topicBudget = "budget"
	// lastBudgets is how long a node that stops tries to give back what it has of budgets.
	lastBudgets = 2 * time.Second
)

// openBudgets makes what keeps calls within the budgets of their accounts. What an earlier process of this node had, it gives back:
// all that its calls have cost is in the database by now.
func (a *App) openBudgets(ctx context.Context, _ *config.Config) error {
	opts := &budget.Options{Node: a.cluster.ID(), Life: cmp.Or(a.cluster.Life(), strings.ToLower(rand.Text())), Log: a.log}
	if a.cluster.Shared() {
		opts.Nodes = a.cluster.Live
		opts.Recall = func(ctx context.Context, accountID, count string) {
			if err := a.cluster.Publish(ctx, topicBudget, accountID+" "+count); err != nil {
				a.log.Warn("other servers could not be asked to give back what they have of a budget", "error", err.Error())
			}
		}
	}
	store := a.opts.Budgets
	if store == nil {
		store = a.facts.stores.budgets
	}
	a.budgets = budget.New(store, opts)
	a.cluster.Subscribe(topicBudget, func(payload string) {
		accountID, count, _ := strings.Cut(payload, " ")
		go func() { // whoever brings the message must not wait for the database
			if err := a.budgets.GiveBack(context.WithoutCancel(ctx), accountID, count); err != nil {
				a.log.Warn("a part of a budget could not be given back", "error", err.Error())
			}
		}()
	}, nil)
	if err := a.books.Flush(ctx); err != nil {
		return err
	}
	return a.budgets.Begin(ctx)
}

// keepBudgets runs until ctx ends, and then gives back what this node has of budgets.
func (a *App) keepBudgets(ctx context.Context) {
	a.budgets.Run(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBudgets)
	defer cancel()
	if err := a.budgets.Close(ctx); err != nil {
		a.log.Warn("what this server has of budgets could not be given back; its next start does", "error", err.Error())
	}
}

// budgetDesk returns what reads and changes budgets. What calls have cost that have just ended is stored before figures are read.
func (a *App) budgetDesk() *budget.Desk {
	return &budget.Desk{Accounts: a.facts.accounts, Ledger: a.budgets, Flush: a.books.View().Flush}
}

package app

import (
	"sluice/internal/admission"
	"sluice/internal/usage"
)

// Watched is how many streams the pulse watches now.
func (a *App) Watched() int { return a.pulse.Watched() }

// BodiesInFlight is how many bytes of request bodies are held now.
func (a *App) BodiesInFlight() int64 { return a.api.BodiesInFlight() }

// Settlements returns the newest settlements, oldest first, and how many there were in all.
func (a *App) Settlements() ([]usage.Settlement, int64) { return a.recent.Settlements() }

// RestoreWindows rebuilds a ledger's windows from a journal, as a start does.
func RestoreWindows(j *usage.Journal, l *admission.Memory) error {
	return (&App{facts: &facts{journal: j}, ledger: l}).restoreWindows()
}

package admin

import (
	"context"
	"slices"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/incident"
)

// NewIncident is the argument of incident.open. Kind is "incident" or "maintenance"; empty: "incident". Without a status it
// has the first one of its kind, and without From it begins now.
type NewIncident struct {
	Actor      string               `json:"actor"`
	Kind       incident.Kind        `json:"kind,omitempty"`
	Title      string               `json:"title"`
	Severity   incident.Severity    `json:"severity,omitempty"`
	Status     incident.Status      `json:"status,omitempty"`
	Text       string               `json:"text"`
	Components []incident.Component `json:"components,omitempty"`
	Models     []string             `json:"models,omitempty"`
	From       time.Time            `json:"from,omitzero"`
	Until      time.Time            `json:"until,omitzero"`
	// Quiet says that nobody gets mail or a webhook about it.
	Quiet bool `json:"quiet,omitempty"`
}

// IncidentUpdate is the argument of incident.update. Without a status, the incident keeps the one that it has.
type IncidentUpdate struct {
	Actor  string          `json:"actor"`
	ID     string          `json:"id"`
	Status incident.Status `json:"status,omitempty"`
	Text   string          `json:"text"`
	Quiet  bool            `json:"quiet,omitempty"`
}

// IncidentEdit is the argument of incident.edit. What is left out stays as it is. Update is the id of an update whose
// text is replaced by Text.
type IncidentEdit struct {
	Actor      string                `json:"actor"`
	ID         string                `json:"id"`
	Title      *string               `json:"title,omitempty"`
	Severity   *incident.Severity    `json:"severity,omitempty"`
	Components *[]incident.Component `json:"components,omitempty"`
	Models     *[]string             `json:"models,omitempty"`
	From       *time.Time            `json:"from,omitempty"`
	Until      *time.Time            `json:"until,omitempty"`
	Postmortem *string               `json:"postmortem,omitempty"`
	Update     string                `json:"update,omitempty"`
	Text       string                `json:"text,omitempty"`
}

// IncidentRef names an incident.
type IncidentRef struct {
	ID string `json:"id"`
}

// Subscribers says how many addresses get mail about incidents.
type Subscribers struct {
	Mail int `json:"mail"`
}

// incidentList lists all incidents, those that began last first.
func (b *Backend) incidentList(ctx context.Context, in Cursor) (List[incident.Incident], error) {
	limit := min(in.limit(), incident.MaxListed)
	list, err := b.Incidents.List(ctx, incident.Query{After: in.After, Limit: limit})
	return listOf(list, limit, func(i *incident.Incident) string { return i.ID }), err
}

func (b *Backend) incidentShow(ctx context.Context, in IncidentRef) (incident.Incident, error) {
	i, err := b.Incidents.Find(ctx, in.ID)
	if err != nil {
		return incident.Incident{}, err
	}
	return *i, nil
}

// incidentOpen tells people of an outage or of planned work. What it may hold is decided by package incident.
func (b *Backend) incidentOpen(ctx context.Context, in NewIncident) (incident.Incident, error) {
	if err := b.knownModels(in.Models); err != nil {
		return incident.Incident{}, err
	}
	return b.Incidents.Open(ctx, in.Actor, incident.Incident{
		Kind: in.Kind, Title: in.Title, Severity: in.Severity, Status: in.Status, Components: in.Components, Models: in.Models, From: in.From, Until: in.Until,
	}, in.Text, in.Quiet)
}

// knownModels returns a fault if a model is not there: a typing mistake would be shown to everybody.
func (b *Backend) knownModels(ids []string) error {
	for _, id := range ids {
		if _, ok := b.Catalog().Lookup(id); !ok && id != b.VideoModel() {
			return b.noModel(fault.NotFound, id, "").At("models")
		}
	}
	return nil
}

func (b *Backend) incidentUpdate(ctx context.Context, in IncidentUpdate) (incident.Incident, error) {
	return b.Incidents.Update(ctx, in.Actor, in.ID, in.Status, in.Text, in.Quiet)
}

// incidentEdit corrects an incident. A model that the incident names already may be gone by now.
func (b *Backend) incidentEdit(ctx context.Context, in IncidentEdit) (incident.Incident, error) {
	if in.Models != nil {
		have, err := b.Incidents.Find(ctx, in.ID)
		if err != nil {
			return incident.Incident{}, err
		}
		fresh := slices.DeleteFunc(slices.Clone(*in.Models), func(id string) bool { return slices.Contains(have.Models, id) })
		if err := b.knownModels(fresh); err != nil {
			return incident.Incident{}, err
		}
	}
	return b.Incidents.Edit(ctx, in.Actor, in.ID, incident.Edit{
		Title: in.Title, Severity: in.Severity, Components: in.Components, Models: in.Models, From: in.From, Until: in.Until, Postmortem: in.Postmortem,
		Update: in.Update, Text: in.Text,
	})
}

func (b *Backend) incidentDelete(ctx context.Context, in EndedOrder) (incident.Incident, error) {
	return b.Incidents.Delete(ctx, in.Actor, in.ID, in.Reason)
}

func (b *Backend) incidentSubscribers(ctx context.Context, _ Empty) (Subscribers, error) {
	n, err := b.Subscribers.Count(ctx)
	return Subscribers{n}, err
}

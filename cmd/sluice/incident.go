package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/incident"
)

// incidentCmd groups the commands about incidents.
func (p *program) incidentCmd() *cobra.Command {
	return group("incident", "Write about incidents and maintenance on the status page", p.incidentOpenCmd(), p.incidentUpdateCmd(), p.incidentEditCmd(), p.incidentDeleteCmd(),
		lists(p, &cobra.Command{Use: "list", Short: "List incidents and planned maintenance"}, p.ops.IncidentList, &admin.Cursor{}, incidentColumns()),
		p.incidentShowCmd(), p.incidentSubscribersCmd())
}

// timeFlag is a pflag.Value for a time such as 2026-11-19T22:00:00Z.
type timeFlag struct{ to *time.Time }

// Set, String and Type implement pflag.Value.
func (f timeFlag) Set(text string) (err error) {
	*f.to, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("%q is not a time; use a form like 2026-11-19T22:00:00Z", text)
	}
	return nil
}
func (f timeFlag) String() string { return "" }
func (f timeFlag) Type() string   { return "time" }

// componentNames returns the names of the components, for help.
func componentNames() string {
	var names []string
	for _, c := range incident.Components() {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// componentsOf returns components by their names.
func componentsOf(names []string) (list []incident.Component) {
	for _, name := range names {
		list = append(list, incident.Component(name))
	}
	return list
}

func (p *program) incidentOpenCmd() *cobra.Command {
	var in admin.NewIncident
	var planned bool
	var components []string
	cmd := does(p, &cobra.Command{
		Use: "open TITLE", Short: "Tell people of an incident or of planned maintenance",
		Long: `Tell people of an incident, or with --maintenance of planned work: on the status
page, as a banner on every page while it lasts, in the feed, and unless --quiet is
given by mail and by webhook to those who have subscribed. It refuses no calls; see
"sluice maintenance" for that.`,
		Example: `  sluice incident open "Requests to lab/large fail" --severity major --model lab/large --text "A provider is down. We are moving calls to another one."
  sluice incident open "Database upgrade" --maintenance --from 2026-11-21T22:00:00Z --until 2026-11-21T23:00:00Z --component dashboard --text "Pages may be slow."`,
		PreRunE: func(*cobra.Command, []string) error {
			if in.Components = componentsOf(components); planned {
				in.Kind = incident.Maintenance
			}
			return nil
		},
	}, p.ops.IncidentOpen, &in, printIncident, &in.Title)
	flags := cmd.Flags()
	flags.BoolVar(&planned, "maintenance", false, "it is planned work")
	flags.StringVar((*string)(&in.Severity), "severity", "", "`how bad` it is: minor, major or critical (default minor)")
	flags.StringVar((*string)(&in.Status), "status", "", "`status`, such as identified (default investigating)")
	flags.StringVar(&in.Text, "text", "", "`what` people read")
	flags.StringSliceVar(&components, "component", nil, "affected `part`: "+componentNames()+"; may be repeated")
	flags.StringSliceVar(&in.Models, "model", nil, "affected `model`; may be repeated")
	flags.Var(timeFlag{&in.From}, "from", "`when` it began or is to begin (default now)")
	flags.Var(timeFlag{&in.Until}, "until", "`when` planned work ends (default until it is completed)")
	quietFlag(flags, &in.Quiet)
	return requires(cmd, "text")
}

// quietFlag adds the flag of commands that may tell nobody.
func quietFlag(flags *pflag.FlagSet, quiet *bool) {
	flags.BoolVar(quiet, "quiet", false, "send no mail and no webhook")
}

func (p *program) incidentUpdateCmd() *cobra.Command {
	var in admin.IncidentUpdate
	cmd := does(p, &cobra.Command{
		Use: "update ID TEXT", Short: "Add an update to an incident, or resolve it",
		Example: `  sluice incident update inc_7X… "Calls pass again. We are watching." --status monitoring
  sluice incident update inc_7X… "It is over. The provider has recovered." --status resolved`,
	}, p.ops.IncidentUpdate, &in, printIncident, &in.ID, &in.Text)
	cmd.Flags().StringVar((*string)(&in.Status), "status", "", "`status`: investigating, identified, monitoring or resolved; in_progress or completed for maintenance (default as it is)")
	quietFlag(cmd.Flags(), &in.Quiet)
	return cmd
}

func (p *program) incidentEditCmd() *cobra.Command {
	var in admin.IncidentEdit
	var given struct {
		title, severity, postmortem string
		components, models          []string
		from, until                 time.Time
	}
	var cmd *cobra.Command
	cmd = does(p, &cobra.Command{
		Use: "edit ID", Short: "Correct an incident or the text of an update, or add a postmortem",
		Long:    "Correct an incident, or with --update the text of one of its updates. What no flag\nnames stays as it is. Nobody is told.",
		Example: `  sluice incident edit inc_7X… --postmortem https://example.com/postmortems/2026-11-19`,
		PreRunE: func(*cobra.Command, []string) error {
			changed := cmd.Flags().Changed
			if changed("title") {
				in.Title = &given.title
			}
			if changed("severity") {
				in.Severity = (*incident.Severity)(&given.severity)
			}
			if changed("postmortem") {
				in.Postmortem = &given.postmortem
			}
			if changed("component") {
				list := componentsOf(given.components)
				in.Components = &list
			}
			if changed("model") {
				in.Models = &given.models
			}
			if changed("from") {
				in.From = &given.from
			}
			if changed("until") {
				in.Until = &given.until
			}
			return nil
		},
	}, p.ops.IncidentEdit, &in, printIncident, &in.ID)
	flags := cmd.Flags()
	flags.StringVar(&given.title, "title", "", "another `title`")
	flags.StringVar(&given.severity, "severity", "", "`how bad` it is: minor, major or critical")
	flags.StringVar(&given.postmortem, "postmortem", "", "`text` or link that says what happened")
	flags.StringSliceVar(&given.components, "component", nil, "affected `part`: "+componentNames()+"; may be repeated")
	flags.StringSliceVar(&given.models, "model", nil, "affected `model`; may be repeated")
	flags.Var(timeFlag{&given.from}, "from", "`when` it began or is to begin")
	flags.Var(timeFlag{&given.until}, "until", "`when` it ended or is to end")
	flags.StringVar(&in.Update, "update", "", "`id` of an update whose text is replaced by --text")
	flags.StringVar(&in.Text, "text", "", "the `text` of the update")
	return cmd
}

func (p *program) incidentDeleteCmd() *cobra.Command {
	in := admin.EndedOrder{}
	return addWhy(does(p, &cobra.Command{Use: "delete ID", Short: "Delete an incident that was opened by mistake"}, p.ops.IncidentDelete, &in, func(w io.Writer, i *incident.Incident) {
		fmt.Fprintf(w, "%s is deleted\n", i.ID)
	}, &in.ID), &in.Reason)
}

func (p *program) incidentShowCmd() *cobra.Command {
	in := admin.IncidentRef{}
	return does(p, &cobra.Command{Use: "show ID", Short: "Show an incident with its updates"}, p.ops.IncidentShow, &in, func(w io.Writer, i *incident.Incident) {
		printIncident(w, i)
		for _, u := range i.Updates {
			fmt.Fprintf(w, "\n%s  %s  %s  %s\n%s\n", timeText(&u.At), u.Status, u.ID, u.Actor, u.Text)
		}
		if i.Postmortem != "" {
			fmt.Fprintf(w, "\npostmortem\n%s\n", i.Postmortem)
		}
	}, &in.ID)
}

func (p *program) incidentSubscribersCmd() *cobra.Command {
	return does(p, &cobra.Command{Use: "subscribers", Short: "Count the addresses that get mail about incidents"}, p.ops.IncidentSubscribers, &admin.Empty{}, func(w io.Writer, s *admin.Subscribers) {
		fmt.Fprintf(w, "%d\n", s.Mail)
	})
}

// printIncident prints an incident without its updates.
func printIncident(w io.Writer, i *incident.Incident) {
	incidentColumns().write(w, []incident.Incident{*i})
}

// incidentColumns returns incidents as a table.
func incidentColumns() columns[incident.Incident] {
	return columns[incident.Incident]{[]string{"ID", "STATUS", "SEVERITY", "FROM", "UNTIL", "AFFECTS", "TITLE"}, func(i *incident.Incident) []string {
		until := "-"
		if !i.Until.IsZero() {
			until = timeText(&i.Until)
		}
		return []string{i.ID, string(i.At(time.Now())), cmp.Or(string(i.Severity), "planned"), timeText(&i.From), until, cmp.Or(i.Affected(), "-"), i.Title}
	}}
}

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
)

// limitFlags are the flags that narrow a sub-key (docs/api.md#limits-of-a-key).
type limitFlags struct{ rpm, tpm, units, models, addresses, expires string }

// add adds the flags to a command.
func (f *limitFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.rpm, "rpm", "", "requests per minute: a `number` or none")
	cmd.Flags().StringVar(&f.tpm, "tpm", "", "tokens per minute: a `number` or none")
	cmd.Flags().StringVar(&f.units, "units", "", "units per month: a `number` or none")
	cmd.Flags().StringVar(&f.models, "models", "", "`ids` of the models that the key may call, separated by commas, or none")
	cmd.Flags().StringVar(&f.addresses, "addresses", "", "`networks` that the key works from, such as 10.0.0.0/8, separated by commas, or none")
	cmd.Flags().StringVar(&f.expires, "expires", "", "`time` at which the key stops working, such as 2027-01-31 or 2027-01-31T12:00:00Z, or none")
}

// given reports whether one of the flags was given.
func (f *limitFlags) given() bool { return *f != limitFlags{} }

// addTags adds the flag with the tags of a key (docs/api.md#tags).
func addTags(cmd *cobra.Command) {
	cmd.Flags().StringArray("tag", nil, "`tag` of every call with the key, such as team=search; repeat it for several, none removes all")
}

// tagsOf returns the tags of a command's flag; nil: it was not given.
func tagsOf(c *cobra.Command) (*[]string, error) {
	if !c.Flags().Changed("tag") {
		return nil, nil
	}
	tags, err := c.Flags().GetStringArray("tag")
	if len(tags) == 1 && tags[0] == noLimit {
		tags = []string{}
	}
	return &tags, err
}

// noLimit is the value of a flag that removes a limit.
const noLimit = "none"

// apply changes limits as the flags of a command say.
func (f *limitFlags) apply(c *cobra.Command, l *admin.KeyLimits) error {
	for text, to := range map[*string]**account.Limit{&f.rpm: &l.RequestsPerMinute, &f.tpm: &l.TokensPerMinute, &f.units: &l.UnitsPerMonth} {
		switch *text {
		case "":
		case noLimit:
			*to = nil
		default:
			n, err := parseLimit(*text)
			if err != nil {
				return misused(c, err)
			}
			*to = &n
		}
	}
	for text, to := range map[*string]*[]string{&f.models: &l.Models, &f.addresses: &l.Addresses} {
		switch *text {
		case "":
		case noLimit:
			*to = nil
		default:
			*to = account.ParseModels(*text) // split in the same way
		}
	}
	switch f.expires {
	case "":
	case noLimit:
		l.ExpiresAt = nil
	default:
		at, err := time.Parse(time.RFC3339, f.expires)
		if err != nil {
			if at, err = time.Parse(time.DateOnly, f.expires); err != nil {
				return misused(c, fmt.Errorf("%q is not a time; write it like 2027-01-31 or 2027-01-31T12:00:00Z", f.expires))
			}
		}
		l.ExpiresAt = &at
	}
	return nil
}

// keyLimitsCmd shows or changes what narrows a sub-key.
func (p *program) keyLimitsCmd() *cobra.Command {
	var flags limitFlags
	var remove bool
	cmd := &cobra.Command{
		Use: "limits KEYID", Short: "Show or change the limits of a sub-key", Args: args("KEYID"),
		Long: "Show what a sub-key is limited to, or change it. Limits of a key only narrow those\nof its account. A flag that is not given keeps what there is, and \"none\" removes it.",
		Example: "  sluice key limits key_… --rpm 5 --models lab/small,lab/large\n" +
			"  sluice key limits key_… --addresses 203.0.113.0/24 --expires 2027-01-31\n  sluice key limits key_… --clear",
		RunE: func(c *cobra.Command, given []string) error {
			k, err := p.findKey(c, given[0])
			if err != nil {
				return err
			}
			tags, err := tagsOf(c)
			if err != nil {
				return err
			}
			if !flags.given() && !remove && tags == nil {
				return p.print(k, func(w io.Writer) { printLimits(w, &k) })
			}
			in := admin.KeyOrder{Target: admin.Target{Ref: k.ID}, Limits: k.Limits, Tags: tags}
			if in.Limits == nil || remove {
				in.Limits = &admin.KeyLimits{}
			}
			if err := flags.apply(c, in.Limits); err != nil {
				return err
			}
			out, err := ask(c.Context(), p, p.ops.KeySetLimits, in)
			if err != nil {
				return err
			}
			return p.print(out, func(w io.Writer) { printLimits(w, &out) })
		},
	}
	flags.add(cmd)
	addTags(cmd)
	cmd.Flags().BoolVar(&remove, "clear", false, "remove all limits first")
	return cmd
}

// findKey returns a key by its id.
func (p *program) findKey(c *cobra.Command, id string) (admin.Key, error) {
	keys, err := allOf(c.Context(), p, p.ops.KeyList, admin.AccountPage{Ref: id})
	if err != nil {
		return admin.Key{}, err
	}
	for _, k := range keys {
		if k.ID == id {
			return k, nil
		}
	}
	return admin.Key{}, fmt.Errorf("there is no key %q; \"sluice key list\" shows the ids", id)
}

// printLimits prints the limits of a key.
func printLimits(w io.Writer, k *admin.Key) {
	text := k.Limits.String()
	if text == "" {
		text = "none beyond those of the account"
	}
	fmt.Fprintf(w, "Limits of key %s (%s): %s.\n", k.ID, k.Name, text)
	if len(k.Tags) > 0 {
		fmt.Fprintf(w, "Tags of its calls: %s.\n", strings.Join(k.Tags, ", "))
	}
}

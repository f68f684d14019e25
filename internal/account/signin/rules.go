package signin

// Step is one way to sign in, or one change to how a person signs in.
type Step string

// The steps, in the order of the rules.
const (
	AskAccount        Step = "ask-account"
	OpenAccount       Step = "open-account"
	AcceptInvite      Step = "accept-invite"
	EnterPassword     Step = "enter-password"
	EnterProvider     Step = "enter-provider"
	EnterCode         Step = "enter-code"
	EnterPasskey      Step = "enter-passkey"
	EnterLink         Step = "enter-link"
	AskReset          Step = "ask-reset"
	ResetPassword     Step = "reset-password"
	ChangePassword    Step = "change-password"
	AskEmail          Step = "ask-email"
	ConfirmEmail      Step = "confirm-email"
	EnrolTOTP         Step = "enrol-totp"
	ActivateTOTP      Step = "activate-totp"
	RemoveTOTP        Step = "remove-totp"
	AskPasskey        Step = "ask-passkey"
	AddPasskey        Step = "add-passkey"
	RemovePasskey     Step = "remove-passkey"
	MakeRecovery      Step = "make-recovery"
	SignOut           Step = "sign-out"
	SignOutEverywhere Step = "sign-out-everywhere"
	CloseAccount      Step = "close-account"
)

// Need is a set of what a step needs.
type Need uint

const (
	NeedsOpen       Need = 1 << iota // sign-up is open to anybody
	NeedsLink                        // a link of the step's purpose, which is then used up
	NeedsPassword                    // the account's password
	NeedsProvider                    // an address that the identity provider has verified
	NeedsCode                        // with two-step sign-in on: a code or a passkey, before there is a session
	NeedsNewCode                     // a code of the secret that is being set up
	NeedsPasskey                     // a passkey whose device has verified its user
	NeedsNewPasskey                  // a passkey that the browser made after AskPasskey
	NeedsSession                     // an open session
	NeedsProof                       // fresh proof from whoever sits at the session; see Demand
)

// End is a set of what a step ends.
type End uint

const (
	EndsThis   End = 1 << iota // the session it happens in
	EndsOthers                 // every other session
	EndsLinks                  // every pending link of the account; known browsers are forgotten
)

// EndsAccess is what every change to how a person signs in ends, so that a thief who was in is out.
const EndsAccess = EndsOthers | EndsLinks

// Give is a set of what a step leads to.
type Give uint

const (
	GivesMail    Give = 1 << iota // a link by mail
	GivesAccount                  // a new account
	GivesSession                  // a session
	GivesNotice                   // a mail that tells the account's owner, at the address the account had before
)

// Rule is what one step needs, gives and ends. Title and Who are the words of docs/teams/signin.md.
type Rule struct {
	Step  Step
	Title string
	Who   string
	Needs Need
	Gives Give
	Ends  End
}

// rules has one rule for every step. The service decides by it which proof to ask for and what to end,
// and docs/teams/signin.md shows it, so the page cannot differ from the code.
var rules = []Rule{
	{AskAccount, "Sign up", "anybody", NeedsOpen, GivesMail, 0},
	{OpenAccount, "Open the account, with a password", "who reads the address's mail", NeedsOpen | NeedsLink, GivesAccount | GivesSession, 0},
	{AcceptInvite, "Accept an invitation, with a password", "whom the operator gave the link", NeedsLink, GivesAccount | GivesSession, 0},
	{EnterPassword, "Sign in with a password", "who knows the password", NeedsPassword | NeedsCode, GivesSession, 0},
	{EnterProvider, "Sign in through the identity provider", "whom the provider knows", NeedsProvider | NeedsCode, GivesSession, 0},
	{EnterCode, "Enter the code of two-step sign-in, or use a passkey", "who took the first step", NeedsCode, GivesSession, 0},
	{EnterPasskey, "Sign in with a passkey alone", "who has the device and unlocks it", NeedsPasskey, GivesSession, 0},
	{EnterLink, "Sign in with the operator's link", "whom the operator gave the link", NeedsLink, GivesSession, 0},
	{AskReset, "Forgot the password", "anybody", 0, GivesMail, 0},
	{ResetPassword, "Set a new password by mail", "who reads the address's mail", NeedsLink | NeedsCode, GivesSession | GivesNotice, EndsAccess},
	{ChangePassword, "Change or set the password", "the owner", NeedsSession | NeedsProof, GivesNotice, EndsAccess},
	{AskEmail, "Ask for another address", "the owner", NeedsSession | NeedsProof, GivesMail, 0},
	{ConfirmEmail, "Confirm the other address", "who reads the new address's mail", NeedsLink, GivesNotice, EndsAccess},
	{EnrolTOTP, "Set up the authenticator app", "the owner", NeedsSession | NeedsProof, 0, 0},
	{ActivateTOTP, "Turn the authenticator app on", "the owner", NeedsSession | NeedsNewCode, GivesNotice, EndsAccess},
	{RemoveTOTP, "Turn the authenticator app off", "the owner", NeedsSession | NeedsProof, GivesNotice, EndsAccess},
	{AskPasskey, "Begin to add a passkey", "the owner", NeedsSession | NeedsProof, 0, 0},
	{AddPasskey, "Add the passkey", "the owner", NeedsSession | NeedsNewPasskey, GivesNotice, EndsAccess},
	{RemovePasskey, "Remove a passkey", "the owner", NeedsSession | NeedsProof, GivesNotice, EndsAccess},
	{MakeRecovery, "Make recovery codes", "the owner", NeedsSession | NeedsProof, GivesNotice, 0},
	{SignOut, "Sign out", "the owner", NeedsSession, 0, EndsThis},
	{SignOutEverywhere, "Sign out everywhere else", "the owner", NeedsSession, 0, EndsAccess},
	{CloseAccount, "Close the account", "the owner", NeedsSession | NeedsProof, 0, EndsThis | EndsAccess},
}

// ruleOf returns the rule of a step.
func ruleOf(step Step) Rule {
	for _, r := range rules {
		if r.Step == step {
			return r
		}
	}
	panic("signin: step " + string(step) + " has no rule") // a step is always one of the constants
}

// Package config reads config.json and its .env file into one complete and checked struct.
//
// It promises that every fault of a file is reported at once, with its line, key, reason and remedy; that defaults are
// filled in; that relative paths count from the folder of config.json; and that secrets always print as ***. The doc
// comments in this file are the descriptions in the JSON Schema (see Schema).
//
// The caller passes the checks of schedules, addresses and bundled feeds to Load, and watches the file for changes. A
// loaded Config never changes and may be read concurrently.
//
// Parse reads the file into a tree with line numbers (decode.go, node.go), replaces ${NAME} and ${file:…} in its
// strings (expand.go), fills the structs of this file field by field, and then checks combinations of fields
// (check.go). A fault never ends the reading, so that all faults are found in one pass.
package config

// Config is the whole of config.json.
type Config struct {
	// Where editors find the JSON Schema of this file. ravenbot does not read it.
	SchemaURL string `json:"$schema"`
	// The store of conversations, items and runs: a path for the embedded store, or a postgres:// URL.
	Store Masked `json:"store" default:"data/ravenbot.db" form:"store"`
	// The key for encrypting secrets in the store: 32 bytes in base64 (`openssl rand -base64 32`). If it is empty, the
	// first start creates one in a file next to the store. Replicas need the same key.
	StoreKey Secret `json:"storeKey" default:"${RAVENBOT_STORE_KEY:-}"`
	// Copies of the store that the running bot makes by itself.
	Backup Backup `json:"backup"`
	// How long records are kept: days such as "90d"; "0": without end.
	Retention Retention `json:"retention"`
	// The dashboard, the web chat and the HTTP API.
	HTTP HTTP `json:"http"`
	// The chat platforms. An empty token turns its platform off.
	Platforms Platforms `json:"platforms"`
	// Language models by name. "default" is used if no other model is named, "utility" for titles and summaries of
	// older turns; "offline" always exists.
	Models map[string]Model `json:"models"`
	// Name of an embedding model. Tools, notes, history and files of agents are then found by their meaning and by
	// their words, and their texts are sent to that model. If it is empty, they are found by their words only.
	Embeddings string `json:"embeddings"`
	// Agents by name: who answers, with which model, prompt and tools. "default" must exist.
	Agents map[string]Agent `json:"agents"`
	// Rules for channels; the first that matches counts. Without a matching rule the default agent answers mentions
	// from everyone.
	Channels []Channel `json:"channels"`
	// Settings for all tools, both native tools and tools of MCP servers.
	Tools Tools `json:"tools"`
	// The settings that people may change for themselves in the chat.
	Settings Settings `json:"settings"`
	// How MCP servers are watched.
	MCP MCP `json:"mcp"`
	// MCP servers by name, in the form other hosts use. Keys that only other hosts know are ignored with one warning.
	MCPServers map[string]MCPServer `json:"mcpServers" alias:"servers"`
	// How feeds are fetched.
	Feeds Feeds `json:"feeds"`
	// Digests by name, with their contents, places and times.
	Digests map[string]Digest `json:"digests"`
	// Settings for reminders and other jobs.
	Jobs Jobs `json:"jobs"`
	// The mail server through which digests go to mailboxes.
	SMTP SMTP `json:"smtp"`
	// Webhooks by name: POST /hooks/NAME posts a text, or has an agent carry out a task.
	Webhooks map[string]Webhook `json:"webhooks"`
	// Caps on spend in US dollars a day.
	Budget Budget `json:"budget"`
	// The limits of one person.
	Limits Limits `json:"limits"`
	// Notices for operators.
	Ops Ops `json:"ops"`
	// Which private hosts outgoing requests may reach.
	Egress Egress `json:"egress"`
	// The log on standard error.
	Log Log `json:"log"`

	// Path is the file that was read, as it was given to Load; Dir is its folder, absolute.
	Path string `json:"-"`
	Dir  string `json:"-"`
	// Warnings are what a reader of the file should know though it loads.
	Warnings []Fault `json:"-"`

	// Where variables were looked up.
	env func(string) (string, bool)
}

// Backup is how copies of the store are made and kept.
type Backup struct {
	// The interval between backups. 0s means never.
	Every Duration `json:"every" default:"24h" min:"0"`
	// How many copies are kept.
	Keep int `json:"keep" default:"7" min:"1"`
	// The folder of the backups. If it is empty, it is next to the store, with .backups after the store's name.
	Folder string `json:"folder" form:"path"`
}

// Retention holds the retention times of records. Expired data is deleted from every record, index, search result and
// export. Older backups still hold it.
type Retention struct {
	// Messages: questions, answers, imported messages, lines and files of web rooms, and their data.
	Conversations Lifetime `json:"conversations" default:"0"`
	// Records of tool calls, with their arguments and results.
	Calls Lifetime `json:"calls" default:"90d"`
	// Sums of usage and cost.
	Usage Lifetime `json:"usage" default:"400d"`
	// Feedback on answers.
	Feedback Lifetime `json:"feedback" default:"365d"`
}

// HTTP is the listener that serves the dashboard, the web chat and the API.
type HTTP struct {
	// Address and port to listen on. An address other machines can reach needs adminToken.
	Listen string `json:"listen" default:"127.0.0.1:8080"`
	// The administrator's token. If it is empty, the first start creates one in a file next to the store.
	AdminToken Secret `json:"adminToken" default:"${RAVENBOT_ADMIN_TOKEN:-}"`
	// A token that opens only /metrics, for Prometheus. If it is empty, /metrics accepts only adminToken.
	MetricsToken Secret `json:"metricsToken"`
	// The external address of this listener, for links. If it is empty, the listen address is used.
	PublicURL Masked `json:"publicURL" form:"http"`
	// Addresses and networks of reverse proxies whose X-Forwarded-For says who the client is: 10.0.0.5 or 10.0.0.0/8.
	TrustedProxies []string `json:"trustedProxies"`
}

// Platforms are the chat platforms.
type Platforms struct {
	// Discord, through a bot user.
	Discord DiscordPlatform `json:"discord"`
	// Slack, through an app with a bot user.
	Slack SlackPlatform `json:"slack"`
	// The chat page in the browser.
	Web WebPlatform `json:"web"`
}

// DiscordPlatform is the connection to Discord.
type DiscordPlatform struct {
	// The bot token from the developer portal. If it is empty, Discord is off.
	Token Secret `json:"token"`
	// Scheme and host of Discord's API; the paths follow it.
	APIBaseURL Masked `json:"apiBaseURL" default:"https://discord.com" form:"origin"`
	// Number of gateway shards. 0 means Discord's recommendation.
	Shards int `json:"shards" min:"0"`
	// How far back to look for messages that were missed while the bot was down. 0s means not at all.
	CatchUp Duration `json:"catchUp" default:"15m" min:"0"`
}

// SlackPlatform is the connection to one Slack app.
type SlackPlatform struct {
	// The bot token, xoxb-…. If it is empty, Slack is off.
	BotToken Secret `json:"botToken"`
	// The app-level token, xapp-…, which mode "socket" needs.
	AppToken Secret `json:"appToken"`
	// The signing secret, which mode "http" needs.
	SigningSecret Secret `json:"signingSecret"`
	// How events arrive: over a socket that ravenbot opens, or as signed requests to /slack/….
	Mode string `json:"mode" default:"socket" enum:"socket|http"`
	// Where Slack's Web API is.
	APIBaseURL Masked `json:"apiBaseURL" default:"https://slack.com/api/" form:"http"`
	// How far back to look for messages that were missed while the bot was down. 0s means not at all.
	CatchUp Duration `json:"catchUp" default:"15m" min:"0"`
}

// WebPlatform is the chat page in the browser.
type WebPlatform struct {
	// Whether the chat page is served.
	Enabled bool `json:"enabled" default:"true"`
}

// Model is one language model behind one endpoint.
type Model struct {
	// The provider: Gemini, Anthropic, any endpoint with OpenAI's chat API, or no model at all.
	Provider string `json:"provider" enum:"gemini|anthropic|openai|offline" required:"true"`
	// The provider's name of the model.
	Model string `json:"model"`
	// The key. If it is empty, this model is skipped and its fallback answers.
	APIKey Secret `json:"apiKey"`
	// The endpoint. If it is empty, it is the provider's own.
	BaseURL Masked `json:"baseURL" form:"http"`
	// Sampling temperature, 0 to 2. If it is absent or null, it is the provider's default.
	Temperature *float64 `json:"temperature" min:"0" max:"2"`
	// Maximum tokens of one answer. 0 means the provider's default.
	MaxOutputTokens int `json:"maxOutputTokens" min:"0"`
	// How long one request may take, with all of its retries.
	Timeout Duration `json:"timeout" default:"120s" min:"1ms"`
	// The time until an answer must begin. Streamed thoughts count as a beginning. Afterwards the fallback is asked.
	// Models that think without streaming, and local models that must be loaded first, need more. 0s means no limit.
	FirstTokenTimeout Duration `json:"firstTokenTimeout" default:"20s" min:"0"`
	// Whether the model is given tools. Set it to false for a model, or a server of models, that takes none.
	Tools bool `json:"tools" default:"true"`
	// Further fields of each request, sent as they are, such as {"thinking": {"type": "disabled"}}.
	Body Object `json:"body"`
	// Calls a Gemini model at Vertex AI, with Google's application default credentials in place of a key.
	Vertex Vertex `json:"vertex"`
	// Models that answer instead, in order, when this one cannot.
	Fallback []string `json:"fallback"`
	// Its price, for budgets and usage.
	Price Price `json:"price"`

	// KeyMissing says that this model asks for a key and got none, so that ModelChain leaves it out.
	KeyMissing bool `json:"-"`
}

// Vertex is where Vertex AI serves a model. Without a project it takes an API key, as in its express mode.
type Vertex struct {
	// The project of Google Cloud.
	Project string `json:"project"`
	// The region, or global.
	Location string `json:"location"`
}

// Price is what a model costs in US dollars.
type Price struct {
	// Dollars per million input tokens.
	InputPerM float64 `json:"inputPerM" min:"0"`
	// Dollars per million input tokens that the provider read from its cache. 0 means the price of other input.
	CachedPerM float64 `json:"cachedPerM" min:"0"`
	// Dollars per million output tokens.
	OutputPerM float64 `json:"outputPerM" min:"0"`
}

// Agent is a profile: who answers, and with what.
type Agent struct {
	// Name of a model.
	Model string `json:"model" default:"default"`
	// The instructions that the model gets before each conversation.
	SystemPrompt string `json:"systemPrompt"`
	// MCP servers this agent may use, as names or {"name", "enabled"}. If it is absent, it may use every enabled
	// server.
	MCPServers []ServerLink `json:"mcpServers"`
	// Names or patterns of servers and native packs, used when mcpServers is there without one enabled link.
	FallbackServers []string `json:"fallbackServers"`
	// Native tools this agent may use, as names or patterns such as feeds.*.
	Tools []string `json:"tools" default:"*"`
	// Files the agent knows, and folders of them: PDF, Markdown, HTML, text and CSV. They are read again when they change.
	Knowledge []string `json:"knowledge" form:"path"`
	// Folders with a SKILL.md (agentskills.io), or patterns such as skills/*: instructions for certain work, which the
	// agent reads when it needs them. Scripts in them are not run.
	Skills []string `json:"skills" form:"path"`
	// Name of a cheaper model, for titles and for summaries of older turns. If it is empty, the model called utility
	// is used if there is one.
	UtilityModel string `json:"utilityModel"`
	// The places where it answers unless a rule of channels names another agent: platform:workspace/channel; * matches
	// anything in a part.
	Channels []string `json:"channels"`
	// If several agents could answer, this one answers only people with one of these roles of Discord or user groups
	// of Slack, by id or name. If it is empty, it answers everybody.
	Roles []string `json:"roles"`
	// Limits of its own.
	Limits AgentLimits `json:"limits"`
	// The part of a conversation that its model gets in addition to the question.
	Context AgentContext `json:"context"`
}

// AgentContext limits the part of a conversation that an agent's model gets.
type AgentContext struct {
	// The number of newest messages of a channel or thread that a mention includes, other people's messages included.
	// 0 means none.
	Messages int `json:"messages" default:"20" min:"0" max:"200"`
	// How many earlier questions are sent with their answers as they were said; older ones are summarized.
	Turns int `json:"turns" default:"40" min:"2" max:"1000"`
	// About how many tokens these may be; older ones are summarized.
	Tokens int `json:"tokens" default:"16000" min:"1000"`
}

// AgentLimits are an agent's own limits on tools.
type AgentLimits struct {
	// The maximum rounds of tool calls of one answer. 0 means the value of tools.maxSteps.
	MaxSteps int `json:"maxSteps" min:"0"`
	// The bytes of a result that the model sees at once. 0 means the value of tools.maxResultBytes.
	MaxResultBytes int `json:"maxResultBytes" min:"0"`
}

// ServerLink ties an agent to an MCP server.
type ServerLink struct {
	// Name of an entry of mcpServers.
	Name string `json:"name" required:"true"`
	// Whether the agent may use it.
	Enabled bool `json:"enabled" default:"true"`
}

// Channel is a rule for the channels, and their threads, that it matches.
type Channel struct {
	// platform:workspace/channel; * matches anything within one part.
	Match string `json:"match" required:"true"`
	// Name of the agent that answers there. If it is absent, the rule does not choose an agent.
	Agent string `json:"agent"`
	// The people who get answers: platform user ids or user names; * matches anything.
	AllowUsers []string `json:"allowUsers" default:"*"`
	// People with one of these roles of Discord or user groups of Slack, by id or name, get answers there, too. With
	// allowRoles and without allowUsers, nobody else does.
	AllowRoles []string `json:"allowRoles"`
	// The messages that get an answer: mentions only, or every message.
	RespondTo string `json:"respondTo" default:"mentions" enum:"mentions|all"`
	// The retention time of messages there. If it is absent, retention.conversations applies.
	Retention *Lifetime `json:"retention"`
}

// Tools holds the settings for all tools.
type Tools struct {
	// false: models get no tools, but still answer.
	Enabled bool `json:"enabled" default:"true"`
	// How many rounds of tool calls one answer may take.
	MaxSteps int `json:"maxSteps" default:"10" min:"1"`
	// Text about tools that goes before the agent's prompt. If it is empty, it is ravenbot's own.
	SystemPrompt string `json:"systemPrompt"`
	// Bytes of a result that the model is shown at once; it can ask for the rest.
	MaxResultBytes int `json:"maxResultBytes" default:"5120" min:"256"`
	// When the model gets a search over the tools in place of the tools.
	Discovery Discovery `json:"discovery"`
	// The decision on calls without a matching rule of policy. safe: tools that only read run, all others ask, and
	// after foreign text was read, every call that could send data out asks; open: they are allowed.
	Mode string `json:"mode" default:"safe" enum:"safe|open"`
	// Permissions of tools. The first matching rule counts. A rule matches if all of its keys do.
	Policy []Policy `json:"policy"`
	// Commands that run before or after a tool call.
	Hooks []Hook `json:"hooks"`
	// The files_… tools.
	Files Files `json:"files"`
	// The billing tools.
	Billing Billing `json:"billing"`
	// The tool web_search. If it is absent, the tool does not exist.
	Search WebSearch `json:"search"`
}

// Discovery is when tools are searched instead of listed.
type Discovery struct {
	// auto: when there are more than threshold tools.
	Mode string `json:"mode" default:"auto" enum:"auto|always|never"`
	// Number of tools above which auto turns the search on.
	Threshold int `json:"threshold" default:"40" min:"1"`
	// Another place for the embeddings at the top level.
	Embeddings string `json:"embeddings"`
}

// Policy is a rule on tool calls.
type Policy struct {
	// Names or patterns of the tools it is about.
	Tools []string `json:"tools" default:"*"`
	// Only tools that declare this; unknown: tools that declare nothing, which count as destructive, too. If it is
	// absent, all tools.
	Hint string `json:"hint" enum:"readOnly|write|destructive|unknown"`
	// Only in these places: platform:workspace/channel; * matches anything.
	Channels []string `json:"channels"`
	// Only for these users: platform user ids or account names.
	Users []string `json:"users"`
	// Only for users with one of these roles, as ids or names.
	Roles []string `json:"roles"`
	// Only in turns that have read foreign text (true), or only in other turns (false).
	Tainted *bool `json:"tainted"`
	// Only calls with addresses of these hosts in their arguments; * matches anything.
	Hosts []string `json:"hosts"`
	// ask: the asker or an administrator approves each call.
	Decision string `json:"decision" enum:"allow|ask|deny" required:"true"`
	// The approvers instead of the asker: roles:NAME or users:ID.
	Approvers []string `json:"approvers"`
}

// Hook is a command run around tool calls.
type Hook struct {
	// Whether it runs before the call, and may stop it, or after.
	When string `json:"when" default:"before" enum:"before|after"`
	// Names or patterns of the tools it is about.
	Tools []string `json:"tools" default:"*"`
	// The program and its arguments; no shell is involved.
	Command Args `json:"command" required:"true"`
	// How long it may take.
	Timeout Duration `json:"timeout" default:"5s" min:"1ms"`
	// The effect of a failed command on the call.
	OnError string `json:"onError" default:"deny" enum:"deny|allow"`
}

// Files is what the files_… tools may reach.
type Files struct {
	// Folders they may read, as paths or {"path", "name", "write"}. If it is empty, the tools are off.
	Roots []FileRoot `json:"roots"`
}

// FileRoot is a folder that the files_… tools may reach.
type FileRoot struct {
	// The folder.
	Path string `json:"path" required:"true" form:"path"`
	// The first part of paths in it. If it is empty, it is the folder's own name.
	Name string `json:"name"`
	// true: files in it may be written and edited.
	Write bool `json:"write"`
}

// WebSearch is who searches the web.
type WebSearch struct {
	// A SearXNG instance, Brave, Tavily, or Gemini with its Google Search. If it is empty, the tool is off.
	Provider string `json:"provider" enum:"searxng|brave|tavily|gemini"`
	// The endpoint; SearXNG needs one. If it is empty, it is the provider's own.
	BaseURL Masked `json:"baseURL" form:"http"`
	// The key; SearXNG needs none.
	APIKey Secret `json:"apiKey"`
	// The model that searches, only for gemini.
	Model string `json:"model" default:"gemini-3.8-flash"`
}

// Billing is what the billing tools compute with.
type Billing struct {
	// The tariff file. If it is empty, the tools are off.
	File string `json:"file" form:"path"`
}

// Settings are the settings that people may change for themselves in the chat. Administrators change the others for
// channels and the bot.
type Settings struct {
	// Settings that members must not change: model, language, timezone, tools.enabled, tools.maxSteps,
	// tools.systemPrompt.
	Locked []string `json:"locked"`
	// Names of the models that members may choose. If it is absent, they may choose any.
	Models []string `json:"models"`
}

// MCP is how MCP servers are watched.
type MCP struct {
	// How often a running server is checked.
	HealthInterval Duration `json:"healthInterval" default:"60s" min:"1s"`
	// How long a known status is shown before it counts as old.
	StatusTTL Duration `json:"statusTTL" default:"300s" min:"1s"`
	// auto: server processes cannot open the bot's own files and the credentials in the home folder, as far as the
	// system can enforce it; each server shows its enforced restrictions. strict: they can also write only to their
	// cwd, their cache, the folders among their arguments and allowPaths, and do not start if the system cannot
	// enforce that. off: they can open every file that the bot can.
	Isolation string `json:"isolation" enum:"auto|strict|off" default:"auto"`
	// The treatment of servers that are added over the API or the page: hold: their tools wait until an administrator
	// has approved them; trust: they are used at once.
	NewServers string `json:"newServers" enum:"hold|trust" default:"hold"`
	// The same for servers of this file at their first connection: approved: their tools are used at once; hold: they
	// wait for an administrator. A tool that changes later waits in any case.
	Configured string `json:"configured" enum:"approved|hold" default:"approved"`
}

// MCPServer is one entry of mcpServers: a command to start, or a URL to call.
type MCPServer struct {
	// The program to start.
	Command string `json:"command"`
	// Its arguments.
	Args Args `json:"args"`
	// Its environment, in addition to a short list of harmless variables. $VAR and ${VAR} are replaced.
	Env Env `json:"env"`
	// A file of NAME=value lines for its environment; env wins.
	EnvFile string `json:"envFile" form:"path"`
	// Its working folder. If it is empty, it is the folder of config.json.
	Cwd string `json:"cwd" form:"path"`
	// The address of the server.
	URL Masked `json:"url" alias:"serverUrl" form:"http"`
	// Headers sent with each request to that URL's origin.
	Headers Headers `json:"headers"`
	// How to talk to it. Empty with a URL: Streamable HTTP first, then the older SSE.
	Type string `json:"type" enum:"stdio|http|sse"`
	// Its purpose, in the operator's words.
	Description string `json:"description"`
	// true: never started; variables in this entry need not be set.
	Disabled bool `json:"disabled"`
	// true: started with the bot rather than at its first call.
	Eager bool `json:"eager"`
	// How long one call may take; a bare number counts milliseconds.
	Timeout Duration `json:"timeout" default:"30s" min:"1ms"`
	// Names or patterns of its tools to offer. If it is empty, all are offered.
	IncludeTools []string `json:"includeTools"`
	// Names or patterns of its tools to leave out.
	ExcludeTools []string `json:"excludeTools" alias:"disabledTools"`
	// Its tools that need no approval as long as no foreign text was read.
	AlwaysAllow []string `json:"alwaysAllow" alias:"autoApprove"`
	// true: the bot trusts the server's claims about its tools. Read-only tools then run without a question, even
	// after foreign text if every address in their arguments is known from the conversation.
	Trust bool `json:"trust"`
	// Names or patterns of its tools that only read, whatever the server claims.
	Reads []string `json:"reads"`
	// The sign-in of the bot if the server requires OAuth. If it is empty, the server and its authorization server
	// decide.
	OAuth ServerOAuth `json:"oauth"`
	// Files and folders that its process can open in spite of isolation, such as ${HOME}/.kube.
	AllowPaths []string `json:"allowPaths" form:"path"`
	// none: its process gets no network. If the system cannot enforce that, the server does not start.
	Network string `json:"network" enum:"all|none" default:"all"`
	// MiB of memory that its processes may use together (only on Linux): above that it is ended and restarted. 0 means
	// no limit.
	MaxMemoryMB int `json:"maxMemoryMB" min:"0" default:"4096"`
	// The only version of MCP to use, such as 2025-06-18. If it is empty, the server chooses.
	Protocol string `json:"protocol"`
	// The destinations that it can reach. "none" declares that it reaches nothing outside of itself, so that its
	// reading tools leak nothing; an object names private hosts that its redirects and discovered addresses may lead
	// to.
	Egress ServerEgress `json:"egress"`
}

// ServerEgress is what an MCP server may reach: an Egress or the word none.
type ServerEgress struct {
	Egress
	// None: it reaches nothing outside of itself.
	None bool `json:"-"`
}

// ServerOAuth is how the bot signs in to an MCP server.
type ServerOAuth struct {
	// The id of a manually registered client. If it is empty, the bot registers itself.
	ClientID string `json:"clientId"`
	// That client's secret.
	ClientSecret Secret `json:"clientSecret"`
	// Or its key, PKCS #8 in PEM, for signed assertions.
	PrivateKey Secret `json:"privateKey"`
	// The only authorization server to use. If it is empty, the server names one.
	Issuer string `json:"issuer" form:"http"`
	// The scopes to request, instead of the server's scopes.
	Scopes []string `json:"scopes"`
	// Whether a person consents, or the client's own credentials are enough.
	Grant string `json:"grant" default:"authorization_code" enum:"authorization_code|client_credentials"`
	// true: each user signs in for themselves, and calls run with their own access.
	PerUser bool `json:"perUser"`
}

// Feeds is how feeds are fetched.
type Feeds struct {
	// How often subscribed feeds are read.
	PollInterval Duration `json:"pollInterval" default:"30m" min:"1s"`
	// Private hosts that may serve feeds, in addition to the hosts of egress: host or CIDR, with optional :port.
	AllowPrivateHosts []string `json:"allowPrivateHosts"`
}

// Digest is a post made from feeds, or an agent's task, on a schedule.
type Digest struct {
	// When: weekdays at 8:30, a five-field cron expression such as 30 8 * * 1-5, or on-new: each item as it comes.
	Schedule string `json:"schedule" required:"true"`
	// The IANA zone the schedule is read in.
	Timezone string `json:"timezone" default:"UTC"`
	// Where items come from: http(s) addresses, or bundled:NAME. Without feeds and channels prompt is an agent's task.
	Feeds []DigestFeed `json:"feeds"`
	// Channels whose decisions, questions and links it reports: addresses in the same server or workspace as each
	// place of post. A channel is left out if a reader of such a place cannot read it.
	Channels []string `json:"channels"`
	// Its target places: addresses such as discord:GUILD/CHANNEL, slack:TEAM/CHANNEL, web:/general.
	Post []string `json:"post" required:"true"`
	// Mailboxes that get it, too: addresses such as anna@example.org. They need smtp.
	Email []string `json:"email"`
	// Items in one post.
	MaxItems int `json:"maxItems" default:"10" min:"1"`
	// Which items count as new: those first seen after the last success.
	Window string `json:"window" default:"sinceLast" enum:"sinceLast"`
	// The maximum age of an item, and of an item that waits for a place. 0s means any age, and 168h for a place.
	MaxAge Duration `json:"maxAge" default:"0s" min:"0s"`
	// The treatment of runs that were due while the bot was down: the latest of them is posted (once), or none (skip).
	CatchUp string `json:"catchUp" default:"once" enum:"once|skip"`
	// The recipients of a notification for each post: role:ID or user:ID, with the platform's ids.
	Ping []string `json:"ping"`
	// Tags of its posts in forums of Discord, by their names. Other places have no tags.
	Tags []string `json:"tags"`
	// Whether items that call themselves advertisements are posted too.
	Adverts bool `json:"adverts"`
	// How kinds of items count that are seldom news.
	Kinds DigestKinds `json:"kinds"`
	// Whether a run without news is silent or posts a notice.
	WhenEmpty string `json:"whenEmpty" default:"skip" enum:"skip|say"`
	// Name of the agent whose model writes it.
	Agent string `json:"agent" default:"default"`
	// Instructions for the model in addition to ravenbot's own rules for digests; without feeds, the agent's task.
	Prompt string `json:"prompt"`
	// A summary above cards, a sentence for each item, sentences grouped by topic, titles only, one story explained,
	// or the most liked posts of other digests (without feeds).
	Style string `json:"style" default:"brief" enum:"brief|bullets|topics|titles|deep|weekly"`
	// Its language. If it is empty, the language of its channel's settings applies, or the language of the items.
	Language string `json:"language"`
	// The maximum tokens of one run. 0 means no cap.
	MaxTokens int `json:"maxTokens" min:"0"`
	// Tools that its task may use without approval: names or patterns. Other tools must only read, and send nothing to
	// addresses that the prompt does not name.
	Tools []string `json:"tools"`
	// Whether to read the page of an item if the feed has only a teaser.
	Articles bool `json:"articles" default:"true"`
	// Words or /expressions/ of which an item must have one; with a leading -, which it must not have; mute:WORD until
	// 2026-12-24.
	Filters []string `json:"filters"`
}

// DigestKinds is the treatment of kinds of items that are seldom news: they are not posted (drop), get a place next to
// other news only if a model rates them highly (low), or count as any other item (normal).
type DigestKinds struct {
	// Items with a discount, a price or a code.
	Offers string `json:"offers" default:"low" enum:"drop|low|normal"`
	// Release candidates, betas and nightly builds.
	Prereleases string `json:"prereleases" default:"low" enum:"drop|low|normal"`
	// A few words without any news, such as "Good morning!".
	Greetings string `json:"greetings" default:"low" enum:"drop|low|normal"`
	// Threads of forums, and questions to readers.
	Discussion string `json:"discussion" default:"low" enum:"drop|low|normal"`
	// Live blogs and streams.
	Live string `json:"live" default:"low" enum:"drop|low|normal"`
	// Lists of links, round-ups and newsletters.
	Links string `json:"links" default:"low" enum:"drop|low|normal"`
	// Short videos.
	Shorts string `json:"shorts" default:"low" enum:"drop|low|normal"`
	// Corrections of earlier reports.
	Corrections string `json:"corrections" default:"low" enum:"drop|low|normal"`
	// Weather, horoscopes, puzzles, recipes and pictures of the day.
	Routine string `json:"routine" default:"low" enum:"drop|low|normal"`
}

// DigestFeed is a feed of a digest.
type DigestFeed struct {
	// An http(s) address, or bundled:NAME.
	URL Masked `json:"url" required:"true"`
	// false: its items are never merged with other items about the same story.
	MergeDuplicates bool `json:"mergeDuplicates" default:"true"`
	// Its weight among the feeds: a feed with 2 gets twice as many places as a feed with 1.
	Weight float64 `json:"weight" default:"1" min:"0.1" max:"10"`
	// Its items come first, and get their places before items of other feeds.
	Pin bool `json:"pin"`
	// Its items are not posted.
	Mute bool `json:"mute"`
}

// Jobs is what holds for reminders and other jobs.
type Jobs struct {
	// How many open reminders and jobs one person may have.
	MaxPerUser int `json:"maxPerUser" default:"50" min:"1"`
	// A part of the day in which repeating jobs wait, in their own time zone, such as 22:00-07:00. If it is empty,
	// there is none.
	QuietHours string `json:"quietHours"`
}

// SMTP is a mail server that takes mail.
type SMTP struct {
	// Name of the server. If it is empty, no mail is sent.
	Host string `json:"host"`
	// Its port: 587 if tls is starttls, 465 if it is tls.
	Port int `json:"port" default:"587" min:"1" max:"65535"`
	// The user for signing in. If it is empty, the bot does not sign in.
	User string `json:"user"`
	// The password of the user.
	Password Secret `json:"password"`
	// The sender of each mail, such as ravenbot@example.org.
	From string `json:"from"`
	// How the connection is protected: from the start (tls), before anything is said (starttls), or not at all (none),
	// which is for a server on this machine.
	TLS string `json:"tls" default:"starttls" enum:"starttls|tls|none"`
}

// Webhook is a way by which other programs start something: POST /hooks/NAME.
type Webhook struct {
	// The signature of deliveries: X-Hub-Signature-256 over the body, or Authorization: Bearer SECRET.
	Secret Secret `json:"secret" required:"true"`
	// Where it posts: addresses such as discord:GUILD/CHANNEL, slack:TEAM/CHANNEL, web:/general.
	Post []string `json:"post"`
	// Name of a digest of the configuration that collects the deliveries and posts them at its times, in the place of
	// post.
	Digest string `json:"digest"`
	// Name of the agent that carries out the prompt.
	Agent string `json:"agent" default:"default"`
	// The task of the agent for each delivery, which it reads as foreign text. If it is empty, a text is posted.
	Prompt string `json:"prompt"`
	// Tools that the task may use though nobody is there to approve: names or patterns.
	Tools []string `json:"tools"`
	// A Go text/template over the JSON of a delivery, which makes the text. If it is empty, GitHub, GitLab, Grafana
	// and Alertmanager have their own forms, and other deliveries show the usual fields.
	Template string `json:"template"`
	// Deliveries that are taken in a minute; more are refused with status 429.
	PerMinute int `json:"perMinute" default:"60" min:"1"`
}

// Budget caps spend in US dollars a day.
type Budget struct {
	// For the whole bot. 0 means no cap.
	InstanceDailyUSD float64 `json:"instanceDailyUSD" min:"0"`
	// For each channel. 0 means no cap.
	ChannelDailyUSD float64 `json:"channelDailyUSD" min:"0"`
	// For each user. 0 means no cap.
	UserDailyUSD float64 `json:"userDailyUSD" min:"0"`
	// For each digest. 0 means no cap.
	DigestDailyUSD float64 `json:"digestDailyUSD" min:"0"`
}

// Limits are the daily limits of one person. Days end at midnight UTC. 0 means no limit. Holders of the admin token
// have none.
type Limits struct {
	// Characters of a message, as many as Slack allows. A longer one is refused, with the advice to attach a file.
	MessageChars int `json:"messageChars" default:"40000" min:"0"`
	// Messages that are answered in a day.
	UserDailyMessages int `json:"userDailyMessages" default:"5000" min:"0"`
	// Files of messages in a day.
	UserDailyFiles int `json:"userDailyFiles" default:"500" min:"0"`
	// Tokens of models in a day, in and out.
	UserDailyTokens int `json:"userDailyTokens" default:"20000000" min:"0"`
	// Digests that one person has made in chat and not removed.
	UserDigests int `json:"userDigests" default:"20" min:"0"`
	// Limits of people with a role of Discord or a user group of Slack, by its id or name, in place of the general ones. With
	// several roles, the highest limit counts.
	Roles map[string]RoleLimits `json:"roles"`
}

// RoleLimits are the limits of people with a role. An absent limit is the same as everybody's; 0 means no limit.
type RoleLimits struct {
	// Messages that are answered in a day.
	UserDailyMessages *int `json:"userDailyMessages" min:"0"`
	// Tokens of models in a day, in and out.
	UserDailyTokens *int `json:"userDailyTokens" min:"0"`
}

// Ops configures the notices for operators.
type Ops struct {
	// The place of a notice at the beginning and at the end of each problem: a failing platform, model or MCP server,
	// a dead feed, a failed digest, an old backup, a used-up budget. Written like slack:TEAM/CHANNEL. If it is empty,
	// there are no notices.
	Channel string `json:"channel"`
}

// Egress is which private hosts outgoing requests may reach.
type Egress struct {
	// host or CIDR, with optional :port.
	AllowPrivateHosts []string `json:"allowPrivateHosts"`
}

// Log is the log on standard error.
type Log struct {
	// The lowest level that is logged.
	Level string `json:"level" default:"info" enum:"debug|info|warn|error"`
	// For people or for machines.
	Format string `json:"format" default:"text" enum:"text|json"`
}

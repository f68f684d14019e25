package front

// planQuestions are asked about plans, with their answers.
var planQuestions = [][2]string{
	{"What counts as a request?", "A call to a model. Calls to a few large models count as more than one, and so does every call with more than 200,000 tokens of prompt; the page of a model says so. Refused calls do not count."},
	{"What are monthly units?", "A bound on fair use. Each call uses the units of the model that answered, counted apart for each tier of models. The overview of your dashboard shows how many are used."},
	{"What are list prices for, if the plan is flat?", "They say what your tokens are worth, so that you can compare models, set budgets in dollars, and see what each key, team or session uses. Your invoice has the price of the plan."},
	{"Can I change or cancel my plan?", "Upgrade at any time: you pay the difference for the days that remain. Cancel at any time: the plan stays until the end of the month that you have paid."},
	{"Do you charge for failed calls?", "No. A call that is refused, or that fails before its first content, gives its requests and tokens back."},
}

// homeQuestions are asked about the service, with their answers.
var homeQuestions = [][2]string{
	{"Which clients work?", "Those that let you set a base URL: the OpenAI and Anthropic SDKs, tools for the command line, editors, and plain HTTP. The API speaks Chat Completions, Responses, Messages and Embeddings."},
	{"What happens when a provider is down?", "The call goes to the next provider of the model, before its first token. If the model has fallbacks and all of its providers fail, one of them answers, and the reply names it."},
	{"How is a model chosen if I name none?", "The model whose name ends in /auto reads what the request needs (tools, images, a long context, how hard it is) and takes the model with the best balance of quality, price and speed. The record of the call says why."},
	{"Can I cap what my programs spend?", "Yes: for the account, a key, a tag or a session. A call that could cost more than is left is refused before it starts."},
	{"Are prompts kept?", "The record of a call has counts, times and costs, no prompts and no answers. Stored responses and videos are kept for as long as their API says, encrypted."},
}

# Prints the model's answers to the questions on the command line.
extends SceneTree

# Of a model that knows no calls: as Hermes' and Qwen's write them.
const CALLS := """{%- for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{%- for c in m.tool_calls %}
{{- '<tool_call>\n' + (c.function | tojson) + '\n</tool_call>' }}{%- endfor %}{{ '<|end|>' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}"""

var chat: PumiceCharacter


func _initialize() -> void:
	_run()


func _run() -> void:
	await process_frame
	var model := PumiceModel.new()
	model.file = "res://models/chat-2m.gguf"
	model.measure_seconds = -1
	chat = PumiceCharacter.new()
	chat.model = model
	chat.max_tokens = 60
	chat.failed.connect(func(message: String) -> void: print("failed: ", message))
	root.add_child(chat)
	for question in OS.get_cmdline_user_args():
		for seed: int in [0, 7]:
			chat.clear()
			chat.seed = seed
			chat.temperature = 0.0 if seed == 0 else 0.8
			var tokens := [""]
			var gather := func(text: String) -> void: tokens[0] += text
			chat.token.connect(gather)
			chat.ask(question)
			var answer: String = await chat.answered
			chat.token.disconnect(gather)
			if tokens[0] != answer:
				print("failed: the tokens are not the answer")
			print("answer %d: %s" % [seed, answer.replace("\n", " ").strip_edges()])
	chat.clear()
	chat.choose("What do you do?", ["wave", "jump", "dance"])
	print("choice: ", await chat.answered)
	chat.thinking = PumiceChat.THINKING_OFF # or a small model may begin with thoughts, which have no form
	chat.schema = JSON.stringify({
		"type": "object",
		"properties": {"action": {"enum": ["wave", "jump"]}, "times": {"type": "integer", "minimum": 1, "maximum": 3}},
		"required": ["action", "times"],
		"additionalProperties": false,
	})
	chat.ask("What do you do?")
	print("schema: ", await chat.answered)
	chat.schema = ""
	chat.clear()
	chat.chat_template = CALLS
	chat.tools = [{"type": "function", "function": {"name": "open_gate", "parameters": {
		"type": "object", "properties": {"way": {"enum": ["north", "south"]}}, "required": ["way"],
		"additionalProperties": false}}}]
	chat.tool_choice = "required"
	chat.max_tokens = 200
	chat.tool_called.connect(func(name: String, arguments: Dictionary) -> void: print("tool: ", name, " ", arguments["way"]))
	chat.ask("Open a gate.")
	await chat.answered
	chat.tool_choice = "none"
	chat.reply_to_tool("open_gate", "It is open.")
	print("after the tool: ", (await chat.answered).replace("\n", " "))
	var roles: Array = chat.get_messages().map(func(message: Dictionary) -> String: return message["role"])
	print("roles: ", " ".join(roles))
	chat.tools = []
	chat.tool_choice = ""
	chat.chat_template = ""
	chat.clear()
	chat.remember("My name is Anna.")
	chat.remember("The sky is blue.")
	chat.recall("What is my name?", 1)
	print("recalled: ", await chat.recalled)
	print("messages: ", chat.get_messages().size())
	var other := PumiceModel.new()
	other.file = "res://none.gguf"
	chat.model = other
	chat.ask("Hello")
	await chat.failed
	chat.queue_free()
	await process_frame
	quit()

# Three villagers, a visitor, and what each frame took. After "--", on the command line: --seconds=N ends it, --silent asks
# nothing, --rounds=N ends it after so many rounds of talk, --budget=MICROSECONDS and --device=own change how answers are computed,
# --screenshot=FILE writes a picture once all have answered, and ends it; --report=FILE writes the figures.
extends Node2D

const WARM_UP_FRAMES := 30

@onready var mira: Villager = $Mira
@onready var tom: Villager = $Tom
@onready var ben: Villager = $Ben

var options := {}
var question := ""
var frames: PackedFloat64Array = []
var counted := 0
var last := 0
var tokens := 0
var started := 0
var loading_frames: PackedFloat64Array = []


func _ready() -> void:
	for argument in OS.get_cmdline_user_args():
		var parts := argument.trim_prefix("--").split("=")
		options[parts[0]] = parts[1] if parts.size() > 1 else ""
	started = Time.get_ticks_usec()
	var model: PumiceModel = mira.character.model
	model.failed.connect(func(message: String) -> void:
		print("failed: ", message)
		get_tree().quit(1))
	if options.get("device", "") == "own":
		model.device = PumiceModel.DEVICE_OWN
	for villager: Villager in [mira, tom, ben]:
		villager.character.frame_budget_us = float(options.get("budget", "2000"))
		villager.character.token.connect(func(_text: String) -> void: tokens += 1)
		villager.character.failed.connect(func(message: String) -> void: push_error(message))
	if not options.has("silent"):
		model.load_in_background()
		_talk()


# The visitor goes from one to the next, over and over.
func _talk() -> void:
	var model: PumiceModel = mira.character.model
	while not model.is_loaded():
		await get_tree().process_frame
	print("loaded after %.2f s: %s" % [(Time.get_ticks_usec() - started) / 1e6, model.get_info()])
	const HELLO := "Hello, my name is Anna."
	mira.character.remember("The sky is blue.")
	mira.character.remember(HELLO)
	var rounds := 0
	while rounds < int(options.get("rounds", "1000000")):
		rounds += 1
		var greeting := await _ask(mira, HELLO)
		# Three at the same time
		question = "What does a cow say?   What is the opposite of hot?   Tell me a short story about a dog."
		mira.hear("What does a cow say?")
		tom.hear("What is the opposite of hot?")
		ben.hear("Tell me a short story about a dog.")
		await ben.character.answered
		while mira.character.is_answering() or tom.character.is_answering():
			await get_tree().process_frame
		for villager: Villager in [mira, tom, ben]:
			var said := villager.words.text
			villager.character.temperature = 1.0 # so that not all do the same
			villager.character.choose("What do you do?", ["wave", "jump", "dance"])
			villager.act(await villager.character.answered)
			villager.character.temperature = 0.0
			villager.say(said)
		if options.has("screenshot"):
			_finish()
			return
		await get_tree().create_timer(3.0).timeout
		for villager: Villager in [mira, tom, ben]:
			villager.say("")
		# A new day: the conversation is gone, but not what was remembered.
		mira.character.clear()
		mira.character.recall("What is my name?", 1)
		var memories: PackedStringArray = await mira.character.recalled
		mira.character.set_messages([{"role": "user", "content": memories[0]}, {"role": "assistant", "content": greeting}])
		await _ask(mira, "What is my name?")
	_finish()


func _ask(villager: Villager, text: String) -> String:
	question = "Visitor to %s: %s" % [villager.title, text]
	villager.hear(text)
	print("%s is asked: %s" % [villager.title, text])
	var answer: String = await villager.character.answered
	print("%s says: %s" % [villager.title, answer])
	return answer


func _process(_delta: float) -> void:
	var now := Time.get_ticks_usec()
	counted += 1
	if counted > WARM_UP_FRAMES:
		if mira.character.model.is_loaded() or options.has("silent"):
			frames.append((now - last) / 1000.0)
		else:
			loading_frames.append((now - last) / 1000.0)
	last = now
	queue_redraw()
	if options.has("seconds") and is_processing() and (now - started) / 1e6 > float(options["seconds"]):
		_finish()


func _finish() -> void:
	set_process(false)
	if options.has("screenshot"):
		await RenderingServer.frame_post_draw
		get_viewport().get_texture().get_image().save_png(options["screenshot"])
	if options.has("report"):
		var report := {
			"model": mira.character.model.get_info(), "tokens": tokens,
			"frames": _figures(frames), "while_loading": _figures(loading_frames),
		}
		print(JSON.stringify(report))
		FileAccess.open(options["report"], FileAccess.WRITE).store_string(JSON.stringify(report))
	get_tree().quit()


func _figures(times: PackedFloat64Array) -> Dictionary:
	var sorted := times.duplicate()
	sorted.sort()
	if sorted.is_empty():
		return {"count": 0}
	var late := 0
	for time in sorted:
		late += 1 if time > 16.7 else 0
	return {"count": sorted.size(), "late": late, "median_ms": sorted[sorted.size() / 2], "worst_ms": sorted[-1]}


func _draw() -> void:
	var size := get_viewport_rect().size
	draw_circle(Vector2(325, 84), 34, Color("f6d58b"))
	draw_circle(Vector2(180, size.y + 320), 520, Color("a9c39a"))
	draw_circle(Vector2(820, size.y + 360), 560, Color("9cb98f"))
	draw_rect(Rect2(0, size.y - 118, size.x, 118), Color("7ea172"))
	draw_rect(Rect2(0, size.y - 44, size.x, 44), Color("2b333f"))
	var font := ThemeDB.fallback_font
	draw_string(font, Vector2(20, size.y - 16), question, HORIZONTAL_ALIGNMENT_LEFT, 660, 14, Color("fffdf7"))
	var recent := frames.slice(-60)
	recent.sort()
	var milliseconds: float = recent[recent.size() / 2] if recent.size() > 0 else 0.0
	var text := "%.1f ms a frame, at most %.1f for answers" % [milliseconds, mira.character.frame_budget_us / 1000.0]
	draw_string(font, Vector2(size.x - 300, size.y - 16), text, HORIZONTAL_ALIGNMENT_RIGHT, 280, 13, Color("c9d2dc"))

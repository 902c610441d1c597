# A hundred scenes (or as many as the command line says) with a character that speaks, each freed in the middle of its answer: what
# the process has grown by afterwards.
extends SceneTree


func _initialize() -> void:
	_run()


func _resident() -> int:
	var pages := FileAccess.open("/proc/self/statm", FileAccess.READ).get_line().split(" ")
	return int(pages[1]) * 4


func _run() -> void:
	await process_frame
	var model := PumiceModel.new()
	model.file = "res://models/chat-2m.gguf"
	model.measure_seconds = -1
	var arguments := OS.get_cmdline_user_args()
	var count := int(arguments[0]) if arguments.size() > 0 and arguments[0].is_valid_int() else 100
	var before := 0
	var middle := 0
	for i in count:
		var character := PumiceCharacter.new()
		character.model = model
		var scene := Node.new()
		scene.add_child(character)
		root.add_child(scene)
		character.ask("Tell me a short story about a dog.")
		await character.token
		scene.queue_free()
		await process_frame
		if i == count / 5 - 1: # what is made once is there by then
			before = _resident()
		if i == count * 3 / 5 - 1:
			middle = _resident()
	var grown := _resident() - before
	print("of %d scenes, grown by %d KiB in the second and third fifth, and by %d KiB in the last two"
			% [count, middle - before, grown - middle + before])
	print("scenes: good" if grown < 4096 else "scenes: grows")
	quit()

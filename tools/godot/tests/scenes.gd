# A hundred scenes with a character that speaks, each freed in the middle of its answer: what the process has grown by afterwards.
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
	var after_twenty := 0
	for i in 100:
		var character := PumiceCharacter.new()
		character.model = model
		var scene := Node.new()
		scene.add_child(character)
		root.add_child(scene)
		character.ask("Tell me a short story about a dog.")
		await character.token
		scene.queue_free()
		await process_frame
		if i == 19:
			after_twenty = _resident()
	var grown := _resident() - after_twenty
	print("grown by %d KiB in the last 80 of 100 scenes" % grown)
	print("scenes: good" if grown < 4096 else "scenes: grows")
	quit()

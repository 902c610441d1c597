# Takes the library out and puts it in again, as the editor does when it has changed.
extends SceneTree

const EXTENSION := "res://addons/pumice/pumice.gdextension"


func _initialize() -> void:
	_run()


func _is_mapped() -> bool:
	var maps := FileAccess.open("/proc/self/maps", FileAccess.READ)
	while not maps.eof_reached():
		if maps.get_line().contains("libpumice_godot"):
			return true
	return false


# Nothing here names a class of the extension, because it goes.
func _answer() -> String:
	var model: Resource = ClassDB.instantiate("PumiceModel")
	model.set("file", "res://models/chat-2m.gguf")
	model.set("measure_seconds", -1.0)
	var character: Node = ClassDB.instantiate("PumiceCharacter")
	character.set("model", model)
	character.set("temperature", 0.0)
	root.add_child(character)
	character.call("ask", "What does a cow say?")
	var answer: String = await Signal(character, "answered")
	character.queue_free()
	await process_frame
	return answer


func _run() -> void:
	await process_frame
	var first := await _answer()
	await process_frame
	var status := GDExtensionManager.unload_extension(EXTENSION)
	print("unloaded: %d, classes left: %s, mapped: %s" % [status, ClassDB.class_exists("PumiceChat"), _is_mapped()])
	var gone := not ClassDB.class_exists("PumiceChat")
	GDExtensionManager.load_extension(EXTENSION)
	var second := await _answer()
	print("before: %s, after: %s" % [first, second])
	print("unload: good" if gone and first == second and first != "" else "unload: bad")
	quit()

# In the editor: what a node and a resource have is still there after the library was reloaded.
@tool
extends EditorPlugin

const EXTENSION := "res://addons/pumice/pumice.gdextension"


func _enter_tree() -> void:
	_run.call_deferred()


func _run() -> void:
	await get_tree().process_frame
	var model: Resource = ClassDB.instantiate("PumiceModel")
	model.set("file", "res://models/chat-2m.gguf")
	model.set("measure_seconds", -1.0)
	var character: Node = ClassDB.instantiate("PumiceCharacter")
	character.set("model", model)
	character.set("system_prompt", "You are a baker.")
	character.set("memories", PackedStringArray(["The oven is hot."]))
	add_child(character)
	var status := GDExtensionManager.reload_extension(EXTENSION)
	var kept: bool = character.get("system_prompt") == "You are a baker." and character.get("model") == model \
			and model.get("file") == "res://models/chat-2m.gguf" and character.get("memories").size() == 1
	character.call("set_temperature", 0.0)
	print("reloaded: %d, kept: %s" % [status, kept])
	character.call("set", "memories", PackedStringArray())
	character.call("set", "system_prompt", "")
	character.call("ask", "What does a cow say?")
	print("after the reload: ", await Signal(character, "answered"))
	print("reload: good" if kept and status == GDExtensionManager.LOAD_STATUS_OK else "reload: bad")
	character.queue_free()
	get_tree().quit()

# A translation, and vectors of texts. The folder of the model of dates is on the command line.
extends SceneTree


func _initialize() -> void:
	_run()


func _run() -> void:
	await process_frame
	var dates := PumiceModel.new()
	dates.file = OS.get_cmdline_user_args()[0]
	dates.measure_seconds = -1
	var translator := PumiceTranslator.new()
	translator.model = dates
	translator.failed.connect(func(message: String) -> void: print("failed: ", message))
	root.add_child(translator)
	translator.translate("le 3 mars 2021")
	print("translated: ", await translator.translated)
	translator.beams = 4
	translator.translate("May 4, 1999")
	print("with beams: ", await translator.translated)

	var vectors := PumiceModel.new()
	vectors.file = "res://models/chat-2m.gguf"
	vectors.purpose = PumiceModel.PURPOSE_VECTORS
	vectors.measure_seconds = -1
	var embedder := PumiceEmbedder.new()
	embedder.model = vectors
	embedder.pooling = "mean"
	embedder.failed.connect(func(message: String) -> void: print("failed: ", message))
	root.add_child(embedder)
	embedder.embed(["The dog is brown.", "The dog is brown.", "Seven"])
	var three: Array = await embedder.embedded
	print("same: %.3f, other: %.1f" % [embedder.similarity(three[0], three[1]), embedder.similarity(three[0], three[2])])
	var good := embedder.similarity(three[0], three[1]) > 0.999 and embedder.similarity(three[0], three[2]) < 0.9
	print("tasks: good" if good else "tasks: bad vectors")

	# What only a model of speech can do fails with a sentence.
	var transcriber := PumiceTranscriber.new()
	transcriber.model = dates
	root.add_child(transcriber)
	transcriber.transcribe([0.0, 0.1, 0.0], 16000)
	print("no speech: ", await transcriber.failed)
	quit()

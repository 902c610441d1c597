# A villager: a figure in front of a house, with a bubble for what it says. The character that speaks is its child.
class_name Villager
extends Node2D

@export var title := "Mira"
@export var coat := Color("c8553d")
@export var roof := Color("8c4a3c")

@onready var character: PumiceCharacter = $Character

var action := ""
var time := 0.0
var bubble: PanelContainer
var words: Label


func _ready() -> void:
	bubble = PanelContainer.new()
	var box := StyleBoxFlat.new()
	box.bg_color = Color("fffdf7")
	box.set_corner_radius_all(10)
	box.set_content_margin_all(10)
	box.shadow_color = Color(0.17, 0.20, 0.25, 0.18)
	box.shadow_size = 5
	bubble.add_theme_stylebox_override("panel", box)
	words = Label.new()
	words.autowrap_mode = TextServer.AUTOWRAP_WORD_SMART
	words.custom_minimum_size = Vector2(240, 0)
	words.add_theme_color_override("font_color", Color("2b333f"))
	words.add_theme_font_size_override("font_size", 15)
	bubble.add_child(words)
	add_child(bubble)
	bubble.hide()
	character.token.connect(func(text: String) -> void: say(words.text + text))
	character.failed.connect(func(message: String) -> void: say(message))


# What is asked is answered in the bubble.
func hear(question: String) -> void:
	say("")
	character.ask(question)


func say(text: String) -> void:
	words.text = text.substr(maxi(0, text.length() - 225))
	bubble.visible = text.strip_edges() != ""
	bubble.reset_size()


func act(what: String) -> void:
	action = what


func _process(delta: float) -> void:
	time += delta
	var height := bubble.get_combined_minimum_size().y
	bubble.position = Vector2(-130, -204 - height)
	queue_redraw()


func _draw() -> void:
	if bubble.visible: # what points to the speaker
		draw_colored_polygon([Vector2(-10, -206), Vector2(10, -206), Vector2(3, -190)], Color("fffdf7"))
	# The house
	draw_rect(Rect2(-92, -118, 184, 118), Color("efe3cf"))
	draw_colored_polygon([Vector2(-106, -116), Vector2(0, -186), Vector2(106, -116)], roof)
	draw_rect(Rect2(38, -88, 34, 34), Color("6d90a8"))
	draw_rect(Rect2(-74, -70, 34, 70), Color("a3835f"))
	# The figure
	var lift := absf(sin(time * 6.0)) * 14.0 if action == "jump" else 0.0
	var step := sin(time * 3.0) * 18.0 if action == "dance" else 0.0
	var at := Vector2(4 + step, -lift)
	draw_set_transform(Vector2(4 + step, 8), 0, Vector2(1, 0.25))
	draw_circle(Vector2.ZERO, 24, Color(0.17, 0.20, 0.25, 0.20))
	draw_set_transform(Vector2.ZERO)
	draw_rect(Rect2(at + Vector2(-12, -22), Vector2(9, 28)), Color("3d4654"))
	draw_rect(Rect2(at + Vector2(3, -22), Vector2(9, 28)), Color("3d4654"))
	draw_colored_polygon([at + Vector2(-13, -64), at + Vector2(13, -64), at + Vector2(20, -16), at + Vector2(-20, -16)], coat)
	var hand := Vector2(30, -80 + sin(time * 8.0) * 8.0) if action == "wave" else Vector2(25, -34)
	draw_line(at + Vector2(11, -58), at + hand, coat.darkened(0.15), 8.0)
	draw_line(at + Vector2(-11, -58), at + Vector2(-23, -34), coat.darkened(0.15), 8.0)
	draw_circle(at + Vector2(0, -78), 15, Color("e8bd95"))
	draw_circle(at + Vector2(-5, -80), 1.8, Color("2b333f"))
	draw_circle(at + Vector2(5, -80), 1.8, Color("2b333f"))
	draw_arc(at + Vector2(0, -76), 6, 0.4, PI - 0.4, 8, Color("2b333f"), 1.6)
	var font := ThemeDB.fallback_font
	var label := title if action == "" else "%s (%s)" % [title, action]
	draw_string(font, Vector2(-92, 32), label, HORIZONTAL_ALIGNMENT_CENTER, 184, 16, Color("2b333f"))

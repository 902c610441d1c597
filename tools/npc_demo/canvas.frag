#version 450

layout(set = 0, binding = 0) uniform sampler2D atlas; // how much of a pixel a letter covers; white for shapes

layout(location = 0) in vec2 place;
layout(location = 1) in vec4 colour;

layout(location = 0) out vec4 pixel;

void main() { pixel = vec4(colour.rgb, colour.a * texture(atlas, place).r); }

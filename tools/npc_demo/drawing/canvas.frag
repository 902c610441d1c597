#version 450

layout(set = 0, binding = 0) uniform sampler2D atlas; // coverage of each pixel by a letter; 1 for shapes

layout(location = 0) in vec2 place;
layout(location = 1) in vec4 colour;

layout(location = 0) out vec4 pixel;

void main() { pixel = vec4(colour.rgb, colour.a * texture(atlas, place).r); }

#version 450

layout(push_constant) uniform Push { vec2 pixel; } push; // size of a pixel, in a picture of size 2

layout(location = 0) in vec2 position; // in pixels, from the upper left corner
layout(location = 1) in vec2 place;    // in the atlas
layout(location = 2) in vec4 colour;

layout(location = 0) out vec2 out_place;
layout(location = 1) out vec4 out_colour;

void main() {
  out_place = place;
  out_colour = colour;
  gl_Position = vec4(position * push.pixel - 1.0, 0.0, 1.0);
}

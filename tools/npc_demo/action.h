#pragma once

namespace npc {

// What the character does after a story.
enum class Action { none, dance, wave, sleep };

} // namespace npc

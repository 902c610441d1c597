#!/usr/bin/env python3
"""Writes short, simple dialogues from a seeded grammar: small talk, simple questions, stories and questions about them.

A dialogue is a list of (role, text).  What the assistant answers follows from what was said before, so a model
trained on the text has to read the whole dialogue.  The lines are dedicated to the public domain (CC0 1.0).
"""
import argparse
import random

import stories

MODEL_NAME = "Pebble"
UNKNOWN = "I do not know that. I only know stories and simple things."
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
           "seventeen eighteen nineteen twenty").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SEASONS = "spring summer autumn winter".split()
COLORS = {"the sky": "blue", "grass": "green", "snow": "white", "the sun": "yellow", "a banana": "yellow",
          "a strawberry": "red", "milk": "white", "a frog": "green", "coal": "black", "a carrot": "orange",
          "a tomato": "red", "the sea": "blue", "a leaf": "green", "a lemon": "yellow", "the night": "black",
          "chocolate": "brown", "a cherry": "red", "a fire truck": "red", "a pumpkin": "orange", "a cloud": "white",
          "a bear": "brown", "an elephant": "gray", "a flamingo": "pink", "a pig": "pink"}
SOUNDS = {"dog": "woof", "cat": "meow", "cow": "moo", "duck": "quack", "sheep": "baa", "pig": "oink", "owl": "hoot",
          "lion": "roar", "frog": "ribbit", "bee": "buzz", "mouse": "squeak", "horse": "neigh", "snake": "hiss",
          "bird": "tweet", "goat": "baa", "bear": "growl"}
LEGS = {"dog": 4, "cat": 4, "bird": 2, "duck": 2, "spider": 8, "bee": 6, "ant": 6, "horse": 4, "cow": 4, "fish": 0,
        "snake": 0, "chicken": 2, "rabbit": 4, "child": 2, "butterfly": 6, "sheep": 4, "mouse": 4}
BABIES = {"dog": "puppy", "cat": "kitten", "cow": "calf", "sheep": "lamb", "chicken": "chick", "duck": "duckling",
          "bear": "cub", "horse": "foal", "pig": "piglet", "frog": "tadpole", "lion": "cub", "goat": "kid"}
HOMES = {"fish": "in the water", "bird": "in a nest", "bee": "in a hive", "bear": "in the forest", "frog": "in a pond",
         "cow": "on a farm", "horse": "in a stable", "rabbit": "in a burrow", "spider": "in a web",
         "squirrel": "in a tree", "whale": "in the sea", "camel": "in the desert", "penguin": "in the snow"}
FOODS = {"rabbit": "carrots", "cow": "grass", "bear": "honey and fish", "squirrel": "nuts", "monkey": "bananas",
         "cat": "fish and mice", "mouse": "seeds and cheese", "bird": "seeds and worms", "sheep": "grass",
         "bee": "nectar from flowers", "lion": "meat", "horse": "hay"}
DEEDS = {"fly": ("bird bee butterfly owl", "fish dog cat cow pig snake spider"),
         "swim": ("fish duck frog whale", "chicken butterfly bee"),
         "bark": ("dog", "cat fish bird cow"), "climb trees": ("squirrel cat monkey", "fish cow whale horse")}
OPPOSITES = ("big small,hot cold,up down,day night,happy sad,fast slow,open closed,wet dry,old young,loud quiet,"
             "left right,soft hard,full empty,good bad,long short,high low,light dark,early late,in out,clean dirty")
SIZES = "ant bee mouse frog duck cat dog sheep pig horse elephant whale".split()
THINGS = {"a toy": "ball kite doll drum puzzle", "a fruit": "banana apple cherry pear peach",
          "an animal": "dog fox rabbit bear owl", "a color": "red blue green yellow purple"}
USES = {"a spoon": "to eat soup", "a bed": "to sleep", "a book": "to read", "a pencil": "to draw and write",
        "an umbrella": "to stay dry in the rain", "a lamp": "to see in the dark", "a hat": "to keep my head warm",
        "soap": "to wash our hands", "a key": "to open a door", "a clock": "to know what time it is",
        "a boat": "to go over the water", "a chair": "to sit"}
OPEN_QUESTIONS = [
    "What is the capital of {x}?", "Who is the king of {x}?", "How far away is {x}?", "How many people live in {x}?",
    "Write a program in {y}.", "Explain {y} to me.", "What is {y}?", "Translate this into {z}.", "How do you say hello in {z}?",
    "What will the weather be tomorrow?", "What time is it?", "What is the news today?", "Who won the game yesterday?",
    "How does {y} work?", "Who invented {y}?", "What is {n} times {n}?", "What year is it?", "How old is {x}?",
    "Can you play {y}?", "Which {y} should I buy?", "What do you think about {y}?", "Write an essay about {y}."]
FAR = "France Japan Rome Paris London China Berlin Mars India Texas Spain America Africa Egypt".split()
HARD = ("a computer,Python,gravity,electricity,a neural network,a car engine,the economy,physics,the internet,chess,"
        "music,money,a rocket,an atom,history,a phone,quantum mechanics,evolution,football,a vaccine").split(",")
TONGUES = "French German Spanish Japanese Latin Italian Chinese".split()


def a(word):
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def capital(text):
    return text[:1].upper() + text[1:]


class Dialogue:
    """One dialogue in the making: its turns, what the user has told, and the dice it rolls."""

    def __init__(self, rng, names):
        self.rng, self.names = rng, names
        self.turns, self.told = [], {}
        self.story = None

    def pick(self, options):
        return options[self.rng.randrange(len(options))]

    def turn(self, user, assistant):
        """One question and its answer; [a|b] picks a part in both."""
        self.turns += [("user", self.loosen(self.expand(user))), ("assistant", self.expand(assistant))]

    def expand(self, frame):
        while "[" in frame:
            start = frame.rindex("[")
            end = frame.index("]", start)
            frame = frame[:start] + self.pick(frame[start + 1:end].split("|")) + frame[end + 1:]
        return frame

    def loosen(self, text):
        """People write without capitals and full stops."""
        if self.rng.random() < 0.12:
            text = text.rstrip(".?!")
        if self.rng.random() < 0.12:
            text = text.lower()
        return text


def greet(d):
    d.turn("[Hello|Hi|Hey|Hi there|Good morning|Good day|Hello, how are you|Hi, how are you]" + d.pick(["", "!", ".", "?"]),
           "Hello! What shall we talk about?")


def thank(d):
    d.turn("[Thank you|Thanks|Thank you very much|Great, thanks|Nice]" + d.pick(["", "!", "."]),
           "You are welcome!")


def part(d):
    name = d.told.get("name")
    d.turn("[Goodbye|Bye|Good night|See you|I have to go]" + d.pick(["", "!", "."]),
           f"Goodbye{', ' + name if name else ''}! Come back soon.")


def who(d):
    kind = d.rng.randrange(5)
    if kind == 0:
        d.turn("[What is your name?|Who are you?|What are you called?|Tell me your name.]",
               f"My name is {MODEL_NAME}. I am a very small language model.")
    elif kind == 1:
        d.turn("[What can you do?|How can you help me?|What do you know?|What can I ask you?]",
               "I can tell stories and answer simple questions about animals, colors, days and small numbers.")
    elif kind == 2:
        d.turn("[Are you a person?|Are you real?|Are you a robot?|Are you human?|What are you?]",
               "I am not a person. I am a very small language model.")
    elif kind == 3:
        d.turn("[How are you?|How do you feel?|Are you well?]", "I am well, thank you! How are you?")
        if d.rng.random() < 0.5:
            d.turn("[I am fine|Good|I am well, thank you|Very well|I am happy]" + d.pick(["", ".", "!"]),
                   "I am glad to hear that!")
    else:
        d.turn("[How old are you?|When were you born?|Where do you live?|Who made you?|Where are you from?]",
               "I am a small model that was trained on one computer. I do not know more than that.")


def about_user(d):
    """Something that the user tells, to be remembered."""
    kind = d.pick([k for k in ("name", "color", "pet", "food") if k not in d.told] or [None])
    if kind == "name":
        name = d.told["name"] = d.pick(stories.GIRLS + stories.BOYS)
        d.turn(f"[My name is {name}.|I am {name}.|I am called {name}.|Hello, my name is {name}.|Hi, I am {name}!]",
               f"Nice to meet you, {name}!")
    elif kind == "color":
        color = d.told["color"] = d.pick("red blue green yellow purple orange pink white black brown".split())
        d.turn(f"[My favorite color is {color}.|I like {color} best.|I love the color {color}.]",
               f"{capital(color)} is a beautiful color!")
    elif kind == "pet":
        pet, name = d.pick("dog cat rabbit mouse horse duck".split()), d.pick(stories.PETS)
        d.told["pet"] = (pet, name)
        d.turn(f"[I have {a(pet)} named {name}.|My {pet} is called {name}.|I have {a(pet)}. Its name is {name}.]",
               f"{name} is a good name for {a(pet)}!")
    elif kind == "food":
        food = d.told["food"] = d.pick(stories.FOODS + ["bread", "soup", "cheese", "honey"])
        d.turn(f"[I like {food}.|My favorite food is {food}.|I love to eat {food}.]",
               f"Oh, {food} {'are' if food.endswith('s') else 'is'} good!")


def recall(d):
    if not d.told or d.rng.random() < 0.1:
        if "name" not in d.told:
            d.turn("[What is my name?|Do you know my name?|Who am I?]", "You did not tell me your name. What is it?")
            if d.rng.random() < 0.6:
                about_user(d)
        return
    kind = d.pick(sorted(d.told))
    told = d.told[kind]
    if kind == "name":
        d.turn("[What is my name?|Do you know my name?|Who am I?|Do you remember my name?]", f"Your name is {told}.")
    elif kind == "color":
        d.turn("[What is my favorite color?|Which color do I like?]", f"Your favorite color is {told}.")
    elif kind == "pet":
        d.turn(f"[What is my {told[0]} called?|What is the name of my {told[0]}?|Do you remember my {told[0]}?]",
               f"Your {told[0]} is called {told[1]}.")
    else:
        d.turn("[What do I like to eat?|What is my favorite food?]", f"You like {told}.")


def count_question(d):
    kind, number = d.rng.randrange(6), lambda n: d.pick([str(n), str(n), NUMBERS[n]])
    if kind in (0, 1):
        x, y = d.rng.randrange(11), d.rng.randrange(11)
        d.turn(f"[What is|How much is|Tell me what is] {number(x)} {d.pick(['plus', 'plus', 'and', '+'])} {number(y)}?",
               f"{x} plus {y} is {x + y}.")
    elif kind == 2:
        x = d.rng.randrange(11)
        y = d.rng.randrange(x + 1)
        d.turn(f"[What is|How much is] {number(x)} {d.pick(['minus', 'take away', '-'])} {number(y)}?",
               f"{x} minus {y} is {x - y}.")
    elif kind == 3:
        n = d.rng.randrange(1, 20)
        if d.rng.random() < 0.6:
            d.turn(f"[What|Which number] comes after {number(n)}?", f"After {n} comes {n + 1}.")
        else:
            d.turn(f"[What|Which number] comes before {number(n)}?", f"Before {n} comes {n - 1}.")
    elif kind == 4:
        n = d.rng.randrange(2, 13)
        d.turn(f"[Count to {number(n)}.|Can you count to {number(n)}?|Please count to {number(n)}.]",
               ", ".join(str(i) for i in range(1, n + 1)) + "!")
    else:
        x, y = d.rng.sample(range(21), 2)
        d.turn(f"[Which number is bigger, {x} or {y}?|What is more, {x} or {y}?]", f"{max(x, y)} is bigger than {min(x, y)}.")


def calendar_question(d):
    kind, everyone = d.pick([("day", DAYS), ("day", DAYS), ("month", MONTHS), ("season", SEASONS)])
    i, after = d.rng.randrange(len(everyone)), d.rng.random() < 0.6
    other = everyone[(i + (1 if after else -1)) % len(everyone)]
    word = "after" if after else "before"
    if d.rng.random() < 0.12:
        d.turn(f"[What are the {kind}s?|Tell me the {kind}s.|Name the {kind}s.]",
               f"The {kind}s are {', '.join(everyone[:-1])} and {everyone[-1]}.")
    elif d.rng.random() < 0.1:
        d.turn(f"How many {kind}s are there in a {'week' if kind == 'day' else 'year'}?",
               f"There are {len(everyone)} {kind}s in a {'week' if kind == 'day' else 'year'}.")
    else:
        d.turn(f"[What|Which {kind}] comes {word} {everyone[i]}?", f"{capital(word)} {everyone[i]} comes {other}.")


def animal_question(d):
    kind = d.rng.randrange(7)
    if kind == 0:
        animal = d.pick(sorted(SOUNDS))
        d.turn(f"[What does {a(animal)} say?|What sound does {a(animal)} make?|How does {a(animal)} sound?]",
               f"{capital(a(animal))} says {SOUNDS[animal]}.")
    elif kind == 1:
        animal = d.pick(sorted(LEGS))
        n = LEGS[animal]
        d.turn(f"[How many legs does {a(animal)} have?|How many legs has {a(animal)}?]",
               f"{capital(a(animal))} has {NUMBERS[n] if n else 'no'} legs.")
    elif kind == 2:
        animal = d.pick(sorted(BABIES))
        d.turn(f"[What is a baby {animal} called?|What do you call a baby {animal}?]",
               f"A baby {animal} is called {a(BABIES[animal])}.")
    elif kind == 3:
        animal = d.pick(sorted(HOMES))
        d.turn(f"[Where does {a(animal)} live?|Where do you find {a(animal)}?]", f"{capital(a(animal))} lives {HOMES[animal]}.")
    elif kind == 4:
        animal = d.pick(sorted(FOODS))
        d.turn(f"[What does {a(animal)} eat?|What does {a(animal)} like to eat?]", f"{capital(a(animal))} eats {FOODS[animal]}.")
    elif kind == 5:
        deed = d.pick(sorted(DEEDS))
        yes = d.rng.random() < 0.5
        animal = d.pick(DEEDS[deed][0 if yes else 1].split())
        d.turn(f"Can {a(animal)} {deed}?", f"{'Yes' if yes else 'No'}, {a(animal)} {'can' if yes else 'can not'} {deed}.")
    else:
        x, y = d.rng.sample(range(len(SIZES)), 2)
        smaller = d.rng.random() < 0.3
        big, small = SIZES[max(x, y)], SIZES[min(x, y)]
        d.turn(f"[Which is|What is|Who is] {'smaller' if smaller else 'bigger'}, {a(SIZES[x])} or {a(SIZES[y])}?",
               f"{capital(a(small))} is smaller than {a(big)}." if smaller else f"{capital(a(big))} is bigger than {a(small)}.")


def thing_question(d):
    kind = d.rng.randrange(5)
    if kind == 0:
        thing = d.pick(sorted(COLORS))
        d.turn(f"[What color is {thing}?|Which color has {thing}?|Tell me the color of {thing}.]",
               f"{capital(thing)} is {COLORS[thing]}.")
    elif kind == 1:
        pair = d.pick(OPPOSITES.split(",")).split()
        d.rng.shuffle(pair)
        d.turn(f"[What is the opposite of {pair[0]}?|Tell me the opposite of {pair[0]}.]",
               f"The opposite of {pair[0]} is {pair[1]}.")
    elif kind == 2:
        group = d.pick(sorted(THINGS))
        word = d.pick(THINGS[group].split())
        d.turn(f"[Name {group}.|Tell me {group}.|Can you name {group}?]", f"{capital(word)} is {group}." if group == "a color"
               else f"{capital(a(word))} is {group}.")
    elif kind == 3:
        thing = d.pick(sorted(USES))
        d.turn(f"[What is {thing} for?|What do you do with {thing}?|Why do people have {thing}?]",
               f"People use {thing} {USES[thing].replace('my head', 'the head').replace('our hands', 'their hands')}.")
    else:
        group, other = d.rng.sample(sorted(THINGS), 2)
        yes = d.rng.random() < 0.5
        word = d.pick(THINGS[group if yes else other].split())
        of = lambda w, g: w if g == "a color" else a(w)
        said = of(word, group if yes else other)
        d.turn(f"Is {said} {group}?", f"Yes, {said} is {group}." if yes else f"No, {said} is {other}.")


def open_question(d):
    frame = d.pick(OPEN_QUESTIONS)
    d.turn(frame.format(x=d.pick(FAR), y=d.pick(HARD), z=d.pick(TONGUES), n=d.rng.randrange(12, 99)), UNKNOWN)


def short_story(s):
    """A plot of a few sentences."""
    s.opening()
    s.day()
    what = s.rng.randrange(4)
    if what == 0:
        s.say("There {he} found {aobj}.", "On the ground {he} saw {aobj}.")
        s.say("{N} took it home and showed it to {k}.", "{N} played with it all day.")
    elif what == 1:
        s.say("There {he} met {stranger}.")
        s.say("They played together until it was dark.", "They became good friends.")
    elif what == 2:
        s.say("It began to rain. {N} ran home and {k} gave {him} warm milk.",
              "Then {he} was hungry. {K} gave {him} some {food}.")
    else:
        s.say("{He} sang a song for {k}.", "{He} made a crown of flowers for {k}.")
        s.say('"How lovely!" said {k}.', '"Thank you, {N}!" said {k}.')
    s.happy()
    s.ending("It was a good day.", "{N} wanted to come back soon.")


def tell_story(d):
    """A story as it was asked for."""
    s = stories.Story(d.rng, d.names)
    short = d.rng.random() < 0.65
    plot = short_story if short else stories.PLOTS[d.rng.randrange(len(stories.PLOTS))]
    plot(s)
    f = s.facts
    d.story = (s.text(), dict(f), s.animals)
    which = d.pick(["", "", f" about {a(f['kind'])}", f" about {a(f['kind'])} named {f['N']}", f" about {f['N']}"])
    if f["obj"] in d.story[0] and d.rng.random() < 0.3:
        which = f" about {f['aobj'] if d.rng.random() < 0.5 else a(f['thing'])}"
    length = "[short|little|tiny]" if short else d.pick(["", "", "[long|nice|good]"])
    noun = f"a {length} story" if length else "a story"
    d.turn(f"[Tell me {noun}{which}.|Please tell me {noun}{which}.|Can you tell me {noun}{which}?|I would like to hear {noun}{which}.|Write {noun}{which}.]",
           "{}")
    d.turns[-1] = ("assistant", d.story[0])


def story_question(d):
    if d.story is None:
        if d.rng.random() < 0.15:
            d.turn("[Who was in the story?|How did the story end?|What was the story about?]",
                   "I did not tell you a story yet. Shall I tell you one?")
            if d.rng.random() < 0.7:
                d.turns += [("user", d.loosen(d.pick(["Yes, please!", "Yes.", "Yes please", "Sure!", "Please do."])))]
                before = len(d.turns)
                tell_story(d)
                del d.turns[before]  # "yes" was the question
        return
    text, f, _ = d.story
    sentences = [line for part in text.split("\n") for line in split_sentences(part)]
    asks = ["who", "kind", "first", "last"]
    if f"the {f['place']}" in text:
        asks += ["where", "where"]
    if f["hobby"] in text:
        asks += ["hobby"]
    if f["obj"] in text:
        asks += ["thing"]
    if f["F"] in text:
        asks += ["friend", "friend"]
    kind = d.pick(asks)
    if kind == "who":
        d.turn("[Who was in the story?|Who was the story about?|What was the story about?|Who is it about?|What was the name of the hero?]",
               f"The story was about {a(f['kind'])} named {f['N']}.")
    elif kind == "kind":
        d.turn(f"[Who was {f['N']}?|Who is {f['N']}?|What was {f['N']}?]", f"{f['N']} was {a(f['kind'])}.")
    elif kind == "first":
        d.turn("[How did the story begin?|How did it start?|What was the beginning?]", sentences[0])
    elif kind == "last":
        d.turn("[How did the story end?|How did it end?|What happened at the end?|What was the end?]", sentences[-1])
    elif kind == "where":
        d.turn(f"[Where was {f['N']}?|Where did {f['N']} go?|Where did the story happen?|Where was it?]",
               f"It happened {f['at']}.")
    elif kind == "hobby":
        d.turn(f"What did {f['N']} [like|like to do|love]?", f"{f['N']} liked {f['hobby']}.")
    elif kind == "thing":
        d.turn(f"[What did {f['N']} have?|Which toy was in the story?|What thing was in the story?|What was {f['his']} thing?]",
               f"It was {f['aobj']}.")
    else:
        d.turn("[Who else was there?|Who else was in the story?|Was there a friend?|Who was the friend?]",
               f"There was also {a(f['fkind'])} named {f['F']}.")


def split_sentences(text):
    """Sentences of a story's part; quotations stay with what follows them."""
    out, start, quoted = [], 0, False
    for i, c in enumerate(text):
        quoted ^= c == '"'
        ends = c in ".!?" and not quoted or c == '"' and not quoted and text[i - 1] in ".!?"
        if ends and (i + 1 == len(text) or text[i + 1] == " " and text[i + 2:i + 3].isupper() or text[i + 2:i + 3] == '"'):
            out.append(text[start:i + 1].strip())
            start = i + 1
    rest = text[start:].strip()
    return out + [rest] if rest else out


QUESTIONS = [count_question, count_question, calendar_question, animal_question, animal_question, thing_question,
             thing_question, open_question, who]


def dialogue(rng, names=6):
    """Returns one dialogue as a list of (role, text), role being "user" or "assistant" in turn."""
    d = Dialogue(rng, names)
    about_stories = rng.random() < 0.4
    if rng.random() < 0.35:
        greet(d)
    if rng.random() < 0.3:
        about_user(d)
    for _ in range(rng.randrange(1, 8) if not about_stories else rng.randrange(2, 6)):
        dice = rng.random()
        if about_stories and d.story is None and dice < 0.75:
            tell_story(d)
        elif about_stories and d.story is not None and dice < 0.85:
            story_question(d)
        elif dice < 0.04:
            story_question(d)
        elif dice < 0.14:
            about_user(d)
        elif dice < 0.26 or (d.told and dice < 0.36):
            recall(d)
        elif dice < 0.42:
            thank(d) if d.turns else greet(d)
        else:
            rng.choice(QUESTIONS)(d)
    if d.turns and rng.random() < 0.15:
        part(d)
    return d.turns or dialogue(rng, names)


def main():
    parser = argparse.ArgumentParser(description="Print generated dialogues.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    for _ in range(args.count):
        print("\n".join(f"{role}: {text}" for role, text in dialogue(rng)) + "\n")


if __name__ == "__main__":
    main()

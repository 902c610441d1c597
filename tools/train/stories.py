#!/usr/bin/env python3
"""Writes short, simple children's stories from a seeded grammar.

Every story follows a plot (a chain of beats with causes and effects), and every beat picks one of
several sentence frames.  Names, pronouns and objects are fixed once per story and referred to
throughout, so a model trained on the text has to learn to keep track of them.

The frames and the stories they make are dedicated to the public domain (CC0 1.0).

Frame notation: ``[one|other]`` picks a part, ``{name}`` fills in a fact of the story.
"""
import argparse
import random
import re

GIRLS = ("Lily Mia Anna Lucy Sara Emma Ella Nora Rosie Daisy Molly Zoe Ivy Ruby Clara Amy Jane Lola "
         "Eva Tina Maya Kate Sue Bella Jill Hana Leila Nina Grace Poppy").split()
BOYS = ("Tom Ben Max Sam Tim Leo Jack Finn Noah Oscar Adam Luke Joe Dan Theo Eli Hugo Owen Jake Ravi "
        "Omar Pete Bobby Kenji Will Charlie Henry Milo Felix Toby").split()
PETS = ("Pip Dot Bramble Hazel Nibbles Coco Fern Button Pepper Rusty Mossy Biscuit Clover Patch Snowy "
        "Acorn Pebble Bean Honey Maple").split()
ALL_NAMES = max(len(GIRLS), len(BOYS), len(PETS))
ANIMALS = "rabbit bear fox mouse squirrel hedgehog badger otter beaver raccoon kitten puppy".split()
TRAITS = "kind curious brave cheerful clever gentle playful quiet friendly shy busy".split()
HOBBIES = ["to play outside", "to sing songs", "to explore", "to draw pictures", "to run and jump",
           "to look at the clouds", "to tell jokes", "to help others", "to climb trees",
           "to dance in the grass", "to collect smooth stones", "to ask questions", "to listen to stories",
           "to chase butterflies", "to build things"]
# Toys and the adjectives that suit them.
TOYS = {"ball": "red blue bouncy yellow striped", "kite": "red blue green long-tailed yellow",
        "doll": "little soft pretty old", "drum": "red shiny loud little", "boat": "wooden blue toy tiny",
        "car": "toy red fast little", "train": "toy wooden green long", "teddy bear": "brown soft old fluffy",
        "puzzle": "big new wooden", "book": "big blue new thick", "hat": "green red warm funny",
        "scarf": "warm purple striped soft", "whistle": "silver tiny shiny", "bucket": "yellow red little",
        "lantern": "small golden shiny", "basket": "round brown little", "ring": "golden shiny tiny",
        "key": "golden tiny old", "shell": "pink white shiny", "robot": "toy silver little",
        "wagon": "red little wooden", "spinning top": "blue shiny wooden"}
SHARED = ["ball", "drum", "boat", "car", "train", "teddy bear", "puzzle", "robot", "wagon", "spinning top"]
POCKET = ["ring", "key", "shell", "whistle", "book", "doll", "teddy bear", "car", "hat", "scarf", "ball"]
# Where a story happens: (place, being there, what is there).
PLACES = [("park", "in", "tall trees"), ("garden", "in", "bright flowers"), ("forest", "in", "old trees"),
          ("beach", "at", "soft sand"), ("farm", "on", "wide fields"), ("meadow", "in", "long grass"),
          ("lake", "by", "quiet water"), ("river", "by", "smooth stones"), ("hill", "on", "green grass"),
          ("pond", "by", "little frogs")]
HOMES = ["in a small house near the {place}", "in a cozy little home by the {place}",
         "in a little village near the {place}", "at the edge of the {place}", "close to the {place}"]
SUNNY = ["The sun was [warm and bright|shining|high in the sky|bright and yellow].",
         "The sky was blue and [the birds were singing|there were no clouds|the air was warm].",
         "It was a [warm|sunny|beautiful|lovely|bright] [day|morning].",
         "[Birds sang in the trees|A soft wind blew|Bees buzzed around the flowers] and the sun was [out|shining]."]
FOODS = ["cookies", "berries", "apples", "muffins", "pancakes", "peaches", "cherries", "buns"]
HELPERS = [("an", "old owl", "she"), ("a", "wise turtle", "he"), ("a", "kind farmer", "he"),
           ("an", "old man", "he"), ("an", "old woman", "she"), ("a", "friendly baker", "she"),
           ("a", "tall gardener", "he"), ("a", "gentle deer", "she")]
CRITTERS = [("bird", "wing", "fly"), ("duckling", "foot", "swim"), ("squirrel", "leg", "climb"),
            ("butterfly", "wing", "fly"), ("frog", "leg", "hop"), ("bunny", "paw", "hop"),
            ("owl", "wing", "fly"), ("lamb", "leg", "run")]
FORMS = {"she": ("she", "her", "her", "herself"), "he": ("he", "him", "his", "himself")}


class Story:
    """One story in the making: its facts, its lines, and the dice it rolls."""

    def __init__(self, rng, names):
        self.rng = rng
        self.girls, self.boys, self.pets = GIRLS[:names], BOYS[:names], PETS[:names]
        self.facts = {}
        self.paragraphs = [[]]
        self.cast()

    def pick(self, options):
        return options[self.rng.randrange(len(options))]

    def person(self, prefix, name, pronoun):
        """Adds a character with pronouns {he} {him} {his} {self}, at a sentence start {He} ...

        With a prefix these are {fhe} ... and {FHE} ..., and the name is the prefix in capitals.
        """
        he, him, his, himself = FORMS[pronoun]
        for key, word in (("he", he), ("him", him), ("his", his), ("self", himself)):
            self.facts[prefix + key] = word
            self.facts[(prefix + key).upper() if prefix else key.capitalize()] = word.capitalize()
        self.facts[prefix.upper() or "N"] = name

    def cast(self):
        """Chooses hero, friend, grown-up, helper, place and toy."""
        rng, facts = self.rng, self.facts
        self.animals = rng.random() < 0.35
        for prefix in ("", "f"):
            pronoun = self.pick(["she", "he"])
            if self.animals:
                name, kind = self.pick(self.pets), self.pick(ANIMALS)
            else:
                name, kind = (self.pick(self.girls), "girl") if pronoun == "she" else (self.pick(self.boys), "boy")
            while prefix == "f" and (name == facts["N"] or (self.animals and kind == facts["kind"])):
                name = self.pick(self.pets if self.animals else self.girls if pronoun == "she" else self.boys)
                kind = self.pick(ANIMALS) if self.animals else kind
            self.person(prefix, name, pronoun)
            facts[prefix + "kind"] = kind
        adult = self.pick(["mom", "dad", "grandma", "grandpa", "mother", "father"])
        self.person("k", "", "she" if adult in ("mom", "grandma", "mother") else "he")
        facts["K"], facts["k"] = f"{facts['His']} {adult}", f"{facts['his']} {adult}"
        facts["adult"] = adult.capitalize()
        article, helper, pronoun = self.pick(
            [h for h in HELPERS if not self.animals or h[1].split()[1] in ("owl", "turtle", "deer")])
        self.person("h", f"The {helper}", pronoun)
        facts.update(helper=f"the {helper}", ahelper=f"{article} {helper}",
                     hand="paw" if self.animals else "hand")
        facts["friend"] = (f"{facts['F']} the {facts['fkind']}" if self.animals
                           else f"{facts['his']} friend {facts['F']}")
        facts["stranger"] = f"a {facts['fkind']} named {facts['F']}"
        facts["trait"], facts["hobby"] = self.pick(TRAITS), self.pick(HOBBIES)
        place, at, sight = self.pick(PLACES)
        facts.update(place=place, at=f"{at} the {place}", sight=sight)
        facts["food"] = self.pick(FOODS)
        self.toy(list(TOYS))

    def toy(self, kinds):
        """Gives the story its object: {thing} 'ball', {obj} 'red ball'."""
        thing = self.pick(kinds)
        adjective = self.pick(TOYS[thing].split())
        self.facts.update(thing=thing, obj=f"{adjective} {thing}",
                          aobj=f"{'an' if adjective[0] in 'aeiou' else 'a'} {adjective} {thing}")

    def expand(self, frame):
        """Resolves choices from the inside out, then facts (whose text may hold facts again)."""
        while "[" in frame:
            frame = re.sub(r"\[([^\[\]]*)\]", lambda m: self.pick(m.group(1).split("|")), frame)
        while "{" in frame:
            frame = frame.format_map(self.facts)
        return frame

    def say(self, *frames, chance=1.0):
        """Adds one of the frames, or with the complement of `chance` nothing."""
        if self.rng.random() < chance:
            self.paragraphs[-1].append(self.expand(self.pick(frames)))

    def part(self):
        """Starts a new paragraph."""
        if self.paragraphs[-1]:
            self.paragraphs.append([])

    def text(self):
        text = "\n".join(" ".join(p) for p in self.paragraphs if p)
        return re.sub(r'(^|[.!?] "?|\n"?)([a-z])', lambda m: m.group(1) + m.group(2).upper(), text)

    # Beats that many plots share.

    def opening(self):
        self.say("Once upon a time, there was a [little|small|young|{trait}] {kind} named {N}.",
                 "Once upon a time, a [little|small|{trait}] {kind} named {N} lived " + self.pick(HOMES) + ".",
                 "Once upon a time, there lived a {trait} [little |]{kind} [named|called] {N}.",
                 "Once upon a time, there was a {kind}. [{His} name was {N}.|{He} was called {N}.]",
                 "Once upon a time, {N} the {trait} {kind} lived " + self.pick(HOMES) + ".",
                 "There was a [little|{trait}|young] {kind} [named|called] {N}.",
                 "There once was a [little|{trait}] {kind} named {N} who lived " + self.pick(HOMES) + ".",
                 "{N} was a [little|{trait}|young] {kind} who [loved|liked] {hobby}.",
                 "A {trait} {kind} named {N} lived " + self.pick(HOMES) + ".",
                 "Long ago, a {trait} {kind} named {N} lived " + self.pick(HOMES) + ".")
        if self.facts["hobby"] not in self.paragraphs[-1][-1]:
            self.say("{He} [loved|liked] {hobby}.",
                     "{N} [loved|liked] {hobby} [every day|all day long|very much].",
                     "{He} was [very |]{trait} and [loved|liked] {hobby}.",
                     "[Every day|Each morning], {he} liked {hobby}.", chance=0.6)

    def day(self):
        self.say("One [day|morning|afternoon|sunny day|sunny morning], {N} [went|walked|ran] to the {place}.",
                 "One [day|morning|afternoon], {N} and {k} went to the {place}.",
                 "One [day|morning], {N} was [playing|walking] {at}.",
                 "On a [sunny|warm|bright] [day|morning], {N} [went|walked] to the {place} [to play|with {k}].")
        self.say(*SUNNY, chance=0.5)
        self.say("There {he} saw {sight}.", "{He} liked the {sight} there.", chance=0.3)

    def ask_adult(self):
        self.say('"What is wrong, {N}?" {k} asked.', '"Why are you sad, {N}?" asked {k}.',
                 '{K} saw that {N} was sad. "What happened?" {khe} asked.',
                 '{K} came and sat down next to {him}. "What is the matter?" {khe} asked [softly|kindly].')

    def happy(self):
        self.say("{N} was [very|so] happy.",
                 "{N} [smiled|laughed] and [jumped up and down|clapped {his} {hand}s].",
                 "{N} felt [happy|proud|warm] inside.", "{N} had a big smile on {his} face.",
                 "It made {N} very happy.")

    def ending(self, *lessons):
        self.say(*lessons, chance=0.85)
        self.say("That night, {N} [slept well|fell asleep with a smile|had sweet dreams].",
                 "{N} went to bed with a [big smile|happy heart].", "It was the best day ever.",
                 "When it got dark, {N} went to bed [happy|with a smile].",
                 "{N} told {k} all about it [at dinner|that night|before bed].",
                 "The end.", chance=0.5)


def lost_thing(s):
    s.toy(POCKET)
    s.opening()
    spots = ["under the bed", "behind the chair", "in the big box", "under the table", "in the kitchen",
             "behind the door", "on the shelf"]
    s.rng.shuffle(spots)
    s.facts.update(a=spots[0], b=spots[1], c=spots[2],
                   spot=s.pick(["under a big tree", "next to a rock", "in the tall grass", "under a bush",
                                "on a bench",
                                "behind an old log"]))
    s.say("{He} had {aobj} that {he} [loved|liked] very much.", "{His} favorite thing was {aobj}.",
          "{N} had {aobj}. {He} took it [everywhere|with {him} every day].",
          "{K} had given {him} {aobj}, and {he} [loved it|kept it close].")
    s.say("One [day|morning|evening], {N} could not find the {thing}.",
          "But one [day|morning], the {obj} was gone.",
          "One [day|morning], {N} woke up and the {thing} was [gone|missing].")
    s.say("{He} looked {a}. It was not there. {He} looked {b}. It was not there either.",
          "{He} looked {a} and {b}, but [it was not there|{he} did not see it].",
          '"Where is my {thing}?" {he} [asked|said]. {He} looked {a}, {b} and {c}.',
          "First {he} looked {a}. Then {he} looked {b}. There was no {thing}.")
    s.say("{N} [was very sad|began to cry|felt like crying|sat down and cried].")
    s.part()
    if s.rng.random() < 0.6:
        s.ask_adult()
        s.say('"I lost my {obj}," said {N}.', '"I cannot find my {thing}," {N} [said|cried].')
        s.say('"Where did you [play|go] yesterday?" {khe} asked.',
              '"Think. Where did you see it last?" {khe} said.',
              '"Let us think together," said {k}. "Where did you have it last?"')
        s.say('{N} thought [hard|for a moment]. "I was {at}!" {he} said.',
              '"I took it to the {place}," {N} said.', '{N} remembered. "I had it {at}!"')
        s.say("So they [went|walked|ran] to the {place} [together|and looked around].",
              "They put on their shoes and went to the {place}."
              if not s.animals else "They went to the {place} right away.")
        s.say("There was the {thing}, {spot}!", "They looked and looked. The {thing} was {spot}!",
              "And there it was, {spot}!", "{N} looked {spot}. There was the {obj}!")
        s.say('"[Thank you|Thank you for helping me], {adult}!" said {N}.', "{N} gave {k} a big hug.",
              '{N} hugged the {thing} and then {he} hugged {k}.')
    else:
        s.say("Then {friend} came [to play|by]. \"I will help you look,\" said {F}.",
              "{N} asked {friend} for help. \"[Of course|Yes], I will help you,\" said {F}.")
        s.say("They went to the {place} and looked [together|everywhere].", "Together they looked {at}.")
        s.say('"Look!" {F} [said|shouted|cried]. "I see something {spot}!"',
              "{F} looked {spot}. \"Here it is!\" {fhe} [said|shouted].")
        s.say("It was the {obj}!", "It was {N}'s {thing}!")
        s.say('"You are a [good|great|true] friend," said {N}.',
              '"Thank you, {F}!" said {N}. [They hugged.|They both smiled.|They danced for joy.]')
    s.happy()
    s.ending("From that day on, {N} always put the {thing} in a safe place.",
             "After that, {he} always kept the {thing} [close|safe].",
             "{N} learned to take [good |]care of {his} things.",
             '"I will take better care of my {thing}," {N} [promised|said].')


def sharing(s):
    s.toy(SHARED)
    s.opening()
    s.say("One day, {k} gave {him} {aobj}.", "For {his} birthday, {N} got {aobj}.",
          "{He} had a new toy. It was {aobj}.", "One day, {N} got {aobj} from {k}.")
    s.say("{N} [loved|liked] the {thing} and played with it all [day|morning].",
          "{He} took the {thing} to the {place}.",
          "It was the best {thing} {he} had ever seen.")
    s.part()
    s.say("{friend} came to play.", "Then {friend} came along.", "At the {place}, {he} met {friend}.")
    s.say('"[Can|May] I play with your {thing}?" {F} asked.',
          '"What a nice {thing}! Can I try it?" asked {F}.',
          '"Can we play with the {thing} together?" asked {F}.')
    s.say('"No! It is mine," said {N}.', '{N} held the {thing} tight. "No," {he} said. "It is mine."',
          '{N} shook {his} head. "No, I want to play alone," {he} said.')
    s.say("{F} was sad and [walked away|sat down under a tree|went away].",
          "{F} looked down. {FHE} was very sad.",
          "{F} felt hurt and began to [cry|walk home].")
    s.part()
    s.say("{N} played with the {thing} alone. But it was [not fun|boring|lonely].",
          "{N} played alone, but soon {he} felt lonely.",
          "Now {N} was all alone. The {thing} was not so fun [anymore|now].")
    s.say("{He} saw {F} and felt bad.", "{He} thought about {F}. {He} had not been kind.",
          '{K} said, "Toys are more fun when you share them."', '"It is nice to share," {k} told {him}.')
    s.say('{N} [went|ran|walked] to {F}. "I am sorry," {he} said. "Let us play together."',
          '"I am sorry, {F}," said {N}. "You can play with my {thing} too."',
          '{N} [went|ran] over and said, "{F}, do you want a turn with the {thing}?"')
    s.say("{F} smiled. They played with the {thing} [until the sun went down|all afternoon|together].",
          '"Thank you!" said {F}. They took turns and [laughed a lot|had so much fun].',
          "{F} was happy again. The two friends played and laughed.")
    s.ending("{N} learned that sharing [is fun|makes everyone happy|is kind].",
             "From that day on, {N} [always shared|liked to share] {his} toys.",
             "{N} was happy because {he} had shared.", "Now {N} knew that a friend is better than any toy.")


def hurt_animal(s):
    critter, limb, act = s.pick(CRITTERS)
    s.facts.update(critter=critter, limb=limb, act=act)
    s.opening()
    s.day()
    s.say("{He} heard a [small|soft|sad] sound. {He} looked down and saw a little {critter}.",
          "Under a bush, {he} saw a little {critter}.", "Then {he} saw a little {critter} on the ground.",
          "A little {critter} was lying in the grass.")
    s.say("Its {limb} was hurt and it could not {act}.", "It could not {act} because its {limb} was hurt.",
          "It had a hurt {limb}. It could not {act} at all.")
    s.say('"[Oh no|Oh dear|Poor little thing]!" said {N}. "I will help you."',
          '"Do not be afraid," {N} said [softly|gently]. "I will help you."',
          "{N} felt [very |]sorry for the little {critter}.")
    s.part()
    s.say("{He} [picked it up gently|took it in {his} {hand}s] and carried it home.",
          "{N} put the {critter} in a [soft|warm] [hat|basket|scarf] and took it home.")
    s.say('"Can we help it?" {he} asked {k}.', '{He} showed it to {k}. "It is hurt," {he} said.')
    s.say("{K} put a [small|soft|little] bandage on its {limb}.",
          '"Yes," said {k}. "We will keep its {limb} clean and warm."',
          "Together they [cleaned|washed] the {limb} and tied a soft cloth around it.")
    s.say("They made a bed in a [box|basket] and gave the {critter} [food and water|some water].",
          "{N} gave it [water|seeds|food] and sang to it [every night|softly].", chance=0.8)
    s.say("Every day, the {critter} got [better|stronger|a little better].",
          "Day by day, the {limb} got better.",
          "{N} took care of it for [many|seven|five] days.")
    s.part()
    s.say("One morning, the {critter} could {act} again!",
          "At last, the {critter} was well. It could {act} again!",
          "Then one day, the {critter} began to {act} [around the room|all by itself].")
    s.say("{N} [took|carried] it back to the {place} and let it go.",
          "{N} knew it was time to let it go. They went back to the {place}.")
    s.say("{N} was [sad|a little sad] to say goodbye, but {he} was glad too.",
          '"Goodbye, little friend," {he} said.', chance=0.7)
    s.say("After that, the {critter} came to [see|visit] {N} every [day|morning|week].",
          "The {critter} looked back one time, as if to say thank you.",
          "Sometimes the {critter} came back to say hello.")
    s.ending("{N} felt good because {he} had helped.",
             "{N} learned that small acts of care can [do big things|help a lot].",
             '"You have a kind heart," said {k}.', "It is good to help those who are hurt.")


FEARS = [("the dark", "One night, the light went out.", "sleep without a light",
          "turned off the lamp and closed {his} eyes",
          "The dark is only the day taking a nap"),
         ("thunder", "One night, there was a big storm. Boom! Boom! It was so loud.", "listen to the storm",
          "looked out of the window and counted to ten",
          "Thunder is only the clouds clapping"),
         ("water", "One day, {N} and {k} went to the lake.", "go into the water",
          "put one foot in the water, and then the other",
          "Water is a friend when you go slowly"),
         ("the big slide", "One day, {N} and {k} went to the playground.", "go down the big slide",
          "climbed up, sat down and let go",
          "It only looks big from down here"),
         ("dogs", "One day, a big dog came to the garden.", "pet the dog",
          "held out {his} {hand} and the dog licked it",
          "This dog only wants to play"),
         ("high places", "One day, {N} and {k} came to a bridge.", "walk over the bridge",
          "took one step, and then one more",
          "Look at me and not at the ground"),
         ("singing in front of others", "One day, there was a show in the village.",
          "sing a song for everyone", "took a deep breath and began to sing",
          "Pretend that you sing only for me")]


def fear(s):
    what, start, deed, tried, advice = s.pick([f for f in FEARS if not (s.animals and f[0] == "dogs")])
    s.facts.update(what=what, deed=deed, tried=tried, advice=advice)
    s.opening()
    s.say("But {N} was afraid of {what}.", "{He} was brave most of the time, but {he} was afraid of {what}.",
          "There was one thing {he} did not like. {He} was scared of {what}.")
    s.say(start)
    s.say("{N} [began to shake|hid behind {k}|held {k} tight|wanted to run away].",
          '"I am scared," {N} said [in a small voice|and hid {his} face].')
    s.part()
    s.say('{K} took {his} {hand}. "{advice}," {khe} said.', '"{advice}," said {k} with a [smile|soft voice].',
          '"Do not worry," said {k}. "{advice}."')
    s.say('"When I was little, I was afraid too," {khe} [said|told {him}].',
          '"I will stay right here with you," {khe} said.', chance=0.6)
    s.say('"Can you be brave and try?" {khe} asked.', '"You can {deed}. I know it," {khe} said.',
          '"Let us try to {deed}," {khe} said.')
    s.say("{N} [thought about it|took a deep breath|waited a little]. Then {he} nodded.",
          "{N} wanted to be brave.",
          '"I will try," said {N}.')
    s.say("{He} {tried}.", "Slowly, {he} {tried}.", "{N} was still a little scared, but {he} {tried}.")
    s.part()
    s.say("Nothing bad happened! It was [even fun|not so bad|fine].", "It was not scary at all!",
          "And it was [fun|nice]! {N} began to [laugh|smile].")
    s.say('"I did it!" {N} [shouted|said|cried].', '"Look, I am not afraid!" said {N}.',
          '"That was fun! Can I do it again?" asked {N}.')
    s.say("{K} gave {him} a big hug. \"I am [so |very |]proud of you,\" {khe} said.",
          "{K} [smiled|clapped]. \"You were very brave,\" {khe} said.")
    s.ending("From that day on, {N} was not afraid of {what}.",
             "{N} learned that being brave means to try even when you are scared.",
             "Now {N} could {deed}, and {he} felt [big and strong|very proud].")


SKILLS = [("ride a bike", "fell off"), ("swim", "got water in {his} nose"),
          ("whistle", "made only a funny sound"),
          ("jump rope", "got {his} feet stuck"), ("skate", "slipped and fell"),
          ("tie a bow", "made a big knot"),
          ("juggle", "dropped everything"), ("catch a ball", "missed it"),
          ("play the flute", "made a terrible noise"),
          ("stand on {his} {hand}s", "fell over"), ("read", "mixed up all the letters")]


def skill(s):
    what, fail = s.pick(SKILLS)
    s.facts.update(what=what, mywhat=what.replace("{his}", "my"), fail=fail)
    s.opening()
    s.say("More than anything, {N} wanted to learn to {what}.", "{N} had a dream. {He} wanted to {what}.",
          "{He} saw {friend} {what}, and {he} wanted to do it too.",
          "One day, {N} said, \"I want to learn to {mywhat}.\"")
    s.say("{He} tried, but {he} {fail}.", "The first time {he} tried, {he} {fail}.",
          "{N} tried and tried, but each time {he} {fail}.")
    s.say("{He} tried again, and again {he} {fail}.", "{He} got up and tried again. But it did not work.",
          chance=0.5)
    s.say('"I [can not|will never] do it!" {he} [cried|said]. "It is too hard."',
          "{N} was [angry|upset] and wanted to [stop|give up].",
          "{N} sat down and [cried|felt very sad].")
    s.part()
    teacher = s.pick(["adult", "friend", "helper"])
    if teacher == "adult":
        s.say('{K} [came|sat down next to {him}]. "It takes time to learn," {khe} said. "[Try again tomorrow|Try a little every day]."',
              '"Do not give up," said {k}. "I will [help|show] you."')
        s.say("{K} showed {him} how to do it, [slowly|step by step].",
              "{K} held {his} {hand} while {he} tried.", chance=0.6)
    elif teacher == "friend":
        s.say('{F} said, "I could not do it at first, too. Then I tried every day."',
              '"I will help you," said {friend}. "Watch me."')
        s.say("{F} showed {him} how to do it, [slowly|step by step].", chance=0.6)
    else:
        s.say('{ahelper} [saw {him}|came by]. "Big trees were once small seeds," said {helper}. "Try a little every day."',
              '{ahelper} came by and saw {him}. "Do you know what to do when it is hard?" {hhe} asked. "Try one more time."')
        s.say('"Thank you," said {N}.', chance=0.5)
    s.say("So {N} tried [every day|every morning|again and again].",
          "The next day, {N} tried again. And the next day, too.",
          "{N} practiced [every day after lunch|every morning|a little each day].")
    s.say("Each day it got a little [better|easier].", "Slowly, it got better.", chance=0.6)
    s.part()
    s.say("Then, one day, {he} did it! {N} could {what}!", "At last, {N} could {what} all by {self}!",
          "One [sunny|fine|happy] morning, it worked. {N} could {what}!")
    s.say('"I did it! I did it!" {he} [shouted|cried|sang].', '"Look at me!" {N} called.')
    s.say("Everyone [clapped|cheered] for {him}.",
          "{K} [clapped|cheered]. \"I knew you could do it,\" {khe} said.", "{K} was very proud.")
    s.ending("{N} learned that you should [never give up|keep trying].",
             "{N} was proud because {he} had not given up.",
             "Now {N} helps others who want to learn.",
             "When something is hard, {N} always says, \"One more time!\"")


def rainy_day(s):
    s.opening()
    s.say("One [day|morning], {N} woke up and heard the rain.", "One day, it rained and rained.",
          "One morning, dark clouds came and it [started|began] to rain.")
    s.say("{He} wanted to go to the {place}, but it was too wet.",
          "{N} looked out of the window. {He} could not go [out|outside].",
          '"I want to play outside," said {N}, "but it is raining."')
    s.say("{N} was [sad|bored|not happy]. [There was nothing to do.|What could {he} do?|{He} did not know what to play.]",
          chance=0.9)
    s.part()
    idea = s.pick([
        ("a fort", "They took chairs and blankets and built a big fort.",
         "They sat inside the fort and told stories.", "It was warm and dark inside, like a cave."),
        ("a tea party", "They put cups on the table and invited all the toys.",
         "The teddy bear sat next to {N} and the doll sat on a chair.",
         "They ate {food} and drank warm tea."),
        ("a picture", "They got paper and paint of every color.",
         "{N} painted a big yellow sun and green grass.", "They put the picture on the wall."),
        ("paper boats", "They folded paper and made small boats.", "{N} made a blue boat and a red boat.",
         "Then they let the boats float in the bath."),
        ("some music", "They took pots and spoons from the kitchen.", "{N} hit the pots. Bang, bang, bang!",
         "It was loud, and they both laughed."),
        ("some soup", "They cut carrots and put them in a big pot.",
         "{N} stirred the soup with a long spoon.", "Soon the whole house smelled good."),
        ("a puppet show", "They made puppets from old socks.", "{N} made a dragon and a princess.",
         "The dragon told a joke and everyone laughed.")])
    s.say('"I have an idea," said {k}. "Let us make ' + idea[0] + '!"',
          '{K} smiled. "We can make ' + idea[0] + '," {khe} said.',
          'Then {friend} came. "Let us make ' + idea[0] + '!" said {F}.')
    s.say('"[Yes|Oh yes|What fun]!" said {N}.', "{N} [jumped up|smiled]. {He} liked that idea.")
    for line in idea[1:]:
        s.say(line, chance=0.9)
    s.part()
    s.say("When they [looked up|looked outside], the rain had stopped.",
          "Soon the rain stopped and the sun came out.", "After some time, the rain went away.")
    s.say("There was a [big|beautiful] rainbow in the sky.", "{N} saw a rainbow with all its colors.",
          "They went outside and jumped in the puddles. Splash!")
    s.say('"I like rain now," said {N}.', '"Rainy days can be fun," {N} said.',
          "{N} was [almost sad|surprised] that the rain was over.", chance=0.7)
    s.ending("{N} learned that you can have fun [on any day|when it rains].",
             "After that, {N} was [always |]happy when it rained.")


BREAKABLE = ["vase", "cup", "plate", "lamp", "bowl", "window", "jar"]


def truth(s):
    s.facts["vase"] = s.pick(BREAKABLE)
    s.toy(["ball", "car", "kite", "robot", "drum", "boat", "train", "wagon"])
    s.opening()
    s.say("One day, {N} was playing with {aobj} in the house.",
          "One [rainy |]day, {N} ran through the house with {aobj}.")
    s.say('{K} had said, "Do not [run|play] in the house." But {N} forgot.',
          '"Please be careful," {k} had told {him}.', chance=0.6)
    s.say("[Crash!|Oh no!|Bang!] The {thing} hit the {vase} and it broke.",
          "Suddenly, the {thing} hit the {vase}. Crash! It broke into many pieces.",
          "{He} did not look, and the {thing} hit the {vase}. It [fell and broke|broke].")
    s.say("{N} was scared. {He} thought {k} would be angry.", '"Oh no," said {N}. "What will I do?"',
          "{N}'s heart beat fast.")
    s.say("So {he} [hid the pieces under the rug|hid behind the couch|ran to {his} room|hid under the bed].")
    s.part()
    s.say('Soon {k} came. "Who broke the {vase}?" {khe} asked.',
          '{K} came in and saw the {vase}. "What happened here?" {khe} asked.')
    s.say('"I do not know," said {N}. But {he} felt bad inside.',
          '"Maybe it was the wind," said {N}, and {his} face got red.',
          "{N} did not say anything. {His} tummy felt funny.", "{N} looked at the floor and said nothing.")
    s.say("{He} did not like to lie.", "{He} could not eat {his} dinner.",
          "{He} could not stop thinking about it.", chance=0.6)
    s.part()
    s.say('At last, {he} went to {k}. "I broke the {vase}," {he} said. "I am sorry."',
          'Then {N} began to cry. "It was me," {he} said. "I am very sorry."',
          '"I have to tell you the truth," said {N}. "I broke the {vase} with my {thing}."')
    s.say('{K} hugged {him}. "Thank you for telling the truth," {khe} said.',
          '"I am glad you told me," said {k}. "Telling the truth is brave."',
          '{K} was not angry. "A {vase} is only a {vase}," {khe} said. "But the truth is very important."')
    s.say("Together they [cleaned up the pieces|cleaned the floor].",
          "They [glued|put] the pieces back together."
          if s.facts["vase"] != "window" else "They cleaned up the glass together.",
          chance=0.7)
    s.say("{N} felt [much better|light again|better].")
    s.ending("From then on, {N} always told the truth.",
             "{N} learned that it is [best|better] to tell the truth.",
             "After that, {N} played with the {thing} outside.",
             '"Next time I will play outside," {N} promised.')


def baking(s):
    s.opening()
    s.facts["cake"] = s.pick(["cake", "pie", "loaf of bread", "batch of cookies", "tray of muffins"])
    s.say("It was {F}'s birthday. {N} wanted to make a {cake} for {fhim}.",
          "{friend} was [sick|sad] that day, so {N} wanted to bake a {cake} for {fhim}.",
          "One day, {N} wanted to surprise {friend} with a {cake}.")
    s.say('"Can you help me?" {N} asked {k}.', '"We can bake it together," said {k}.')
    s.say("They put flour, eggs and sugar in a big bowl.",
          "First they took a big bowl. Then they put in flour, milk and [sugar|honey].")
    s.say("{N} stirred and stirred.", "{N} stirred until {his} arms were tired.",
          "There was flour on {his} nose.", chance=0.8)
    s.part()
    mishap = s.rng.random()
    if mishap < 0.4:
        s.say("They put it in the oven. Soon there was a bad smell. The {cake} was burned!",
              "But they forgot about the oven, and the {cake} got black.")
        s.say('"Oh no," cried {N}. "It is [ruined|all black]!"', "{N} was so sad that {he} almost cried.")
        s.say('"We can try again," said {k}. And so they did.',
              '"Do not cry," said {k}. "We have time to make one more."')
        s.say("This time they [watched the oven|waited next to the oven] and the {cake} was [golden|perfect].")
    elif mishap < 0.7:
        s.say("But there was no sugar left. \"What now?\" asked {N}.",
              '"Oh no," said {N}. "We have no sugar left!"')
        s.say("{N} went to {ahelper}. \"May I have some sugar, please?\" {he} asked.")
        s.say('"Of course," said {helper}, and gave {him} a full cup.',
              "{H} smiled and gave {him} a small bag.")
        s.say("Soon the {cake} was in the oven and the house smelled [sweet|good|wonderful].")
    else:
        s.say("They put it in the oven and waited.", "{K} put it in the oven.")
        s.say("The house smelled [sweet|good|wonderful].", '"Is it ready?" {N} asked again and again.')
        s.say("At last it was ready. {N} put [cherries|berries|nuts|peaches] on top.")
    s.part()
    s.say("{N} carried the {cake} to {F}'s house.",
          "{N} [walked|went] to {F}'s house and knocked on the door.")
    s.say('"Surprise!" {N} [shouted|said]. "I made this for you."', '"This is for you," said {N}.')
    s.say('"[Wow|Oh], thank you!" said {F}. "It looks so good!"',
          "{F}'s eyes got big. \"For me?\" {fhe} asked.", "{F} was so happy that {fhe} hugged {N}.")
    s.say("They ate it together. It was [sweet|warm|delicious].", "They sat down and shared it. Yum!",
          "Everyone had a big piece.")
    s.ending("{N} learned that it feels good to give.", "{N} was happy because {F} was happy.",
             "The best gifts are made with love.")


def lost_way(s):
    s.facts["lure"] = s.pick(["a blue butterfly", "a shiny beetle", "a little frog",
                              "a white feather in the wind", "a tiny bird"])
    s.facts.update(place="forest", at="in the forest", sight="old trees")
    s.opening()
    s.say("One day, {N} went for a walk in the forest with {k}.",
          "One [sunny |]morning, {N} went to the forest to pick [berries|flowers|mushrooms].")
    s.say('"Stay close to me," said {k}.', '"Do not go too far," {k} told {him}.')
    s.say("Then {N} saw {lure}. {He} ran after it.",
          "But {N} saw {lure} and followed it [deep into the trees|for a long time].")
    s.say("When {he} stopped, {he} did not know where {he} was.",
          "Soon {he} looked around. All the trees looked the same.")
    s.say('"[Hello|{adult}]? Where are you?" {he} called. No one answered.',
          "{N} was lost. {He} was [scared|cold and afraid].", "{N} sat down on a log and began to cry.")
    s.part()
    s.say("Then {ahelper} came [by|out of the trees]. \"Why do you cry, little one?\" {hhe} asked.",
          '"Who is crying here?" said a voice. It was {ahelper}.')
    s.say('"I am lost," said {N}. "I want to go home."', '"I cannot find my way home," said {N}.')
    s.say('"Do not be afraid," said {helper}. "I know the way."',
          '"I can help you," {helper} said. "Come with me."',
          '"Listen," said {helper}. "Can you hear the river? It goes to your home."')
    s.say("They walked [past the big rocks|over a little bridge|along the river] and [under|past] the tall trees.",
          "{H} walked in front and {N} walked behind {hhim}.",
          "They followed the path and sang a song on the way.")
    s.part()
    s.say("Soon {N} saw {his} home.", "At last {he} saw {k} waiting.", "Then {N} heard {k} call {his} name.")
    s.say('{K} ran to {him} and hugged {him}. "I was so worried," {khe} said.',
          '"There you are!" cried {k}. {KHE} hugged {him} tight.')
    s.say('"Thank you for your help," {N} said to {helper}.',
          "{N} turned to thank {helper}, and {hhe} waved goodbye.",
          "{K} thanked {helper} and gave {hhim} some {food}.")
    s.ending("{N} promised to stay close next time.", "From that day on, {N} always stayed close to {k}.",
             "{N} learned to listen to {k}.")


def new_friend(s):
    s.opening()
    s.say("But {N} had no one to play with.", "But {he} was lonely. {He} wanted a friend.",
          "{He} had many toys but no friend.", chance=0.6)
    s.day()
    s.say("There {he} saw {stranger}.", "{He} saw {stranger} who sat all alone.",
          "Near a tree, {he} saw {stranger}.")
    s.say("{F} looked [sad|lonely|shy].", "{F} did not play with anyone.",
          "{F} was new there and did not know anyone.")
    s.say("{N} wanted to say hello, but {he} was shy.", "{N} felt shy. What if {F} did not like {him}?",
          chance=0.6)
    s.part()
    s.say('{N} took a deep breath and said, "Hello, I am {N}. [What is your name?|Do you want to play?]"',
          '{N} walked over. "[Hi|Hello]," {he} said. "Do you want to play with me?"',
          '{N} smiled and [showed|held out] {his} {thing}. "Would you like to play?" {he} asked.')
    s.say('"My name is {F}," {fhe} said. "Yes, I would like that."',
          '{F} looked up and smiled. "I am {F}," {fhe} said. "I would love to play."',
          '"Yes, please!" said {F}. "I just moved here and I have no friends."')
    s.say("They played [hide and seek|tag|a game with the {thing}|with the {thing}].",
          "First they [played tag|ran a race]. Then they [looked for bugs|climbed a tree|looked at the clouds].",
          "They [ran|jumped] and laughed all [day|afternoon].")
    s.say("{F} showed {N} a secret place under a bush.", "{N} gave {F} half of {his} {food}.",
          "{F} told a funny joke and {N} laughed.", "They found a shiny stone and took turns to hold it.",
          chance=0.7)
    s.part()
    s.say("When it got [late|dark], they had to go home.", "Then it was time to go home.")
    s.say('"Will you come back tomorrow?" asked {F}.', '"Can we play again tomorrow?" {F} asked.')
    s.say('"Yes!" said {N}. "We are friends now."', '"Of course," said {N}. "You are my friend."')
    s.ending("From that day on, {N} and {F} played together every day.",
             "{N} learned that a kind word can make a new friend.", "{N} and {F} became best friends.",
             "{N} was not lonely anymore.")


def seed(s):
    s.facts["plant"] = s.pick(["sunflower", "apple tree", "pumpkin", "bean plant", "rose", "tomato plant"])
    s.opening()
    s.say("One day, {N} found a [tiny|small|brown] seed.", "One spring day, {k} gave {N} a small seed.",
          "One day, {ahelper} gave {N} a seed. \"Take care of it,\" said {helper}.")
    s.say('"What will it be?" {N} asked. "Wait and see," said {k}.',
          '"If you take care of it, it will grow," said {k}.')
    s.say("{N} made a [little |]hole in the ground and put the seed in.", "{N} planted it in the garden.",
          "They put the seed in the [dark|soft] soil.")
    s.say("Every day, {he} gave it water.", "{He} watered it every morning.")
    s.part()
    s.say("But nothing [happened|came up].", "{He} waited and waited, but {he} saw nothing.",
          "One week went by, and there was only dirt.")
    s.say('"Why does it not grow?" {N} asked.', "{N} wanted to dig it up and look.",
          '"It will never grow," {N} said sadly.')
    s.say('"Good things take time," said {k}.', '"Be patient," said {k}. "It is growing under the ground."',
          '{K} said, "Seeds need sun, water and time."')
    s.say("So {N} waited. {He} sang to the seed and told it stories.",
          "So {N} gave it water and waited some more.", "{N} tried to be patient.")
    s.part()
    s.say("One morning, there was a tiny green leaf!", "Then one day, a little green plant came up!",
          "And then, one sunny day, {he} saw something green.")
    s.say('"It is growing!" {he} [shouted|cried].', "{N} danced around it.", "{N} ran to tell {k}.")
    s.say("It grew and grew. By summer, it was a big {plant}.",
          "Day after day it grew, until it was a tall {plant}.", "Soon it was a beautiful {plant}.")
    s.say("{N} showed it to {friend}. \"I grew it all by myself,\" {he} said.", "Everyone came to see it.",
          "{N} was [very |so ]proud of the {plant}.")
    s.ending("{N} learned that good things take time.", "{N} learned to be patient.",
             "Next year, {N} wants to plant two seeds.",
             "{N} gave one seed to {F}, so that {fhe} could grow one too.")


def race(s):
    s.opening()
    s.say("{N} was very fast and [liked to say so|told everyone about it].",
          '"I am the fastest {kind} of all!" {he} [always|often] said.', "{He} could run faster than anyone.")
    s.say("One day, there was a race {at}.", "One day, {friend} said, \"Let us have a race.\"")
    s.say('{N} laughed at {F}. "You are too slow," {he} said. "I will win."',
          '"You can never beat me," {N} told {F}.')
    s.say('"We will see," said {F}.', "{F} did not say anything. {FHE} just smiled.",
          '"I will do my best," said {F}.')
    s.part()
    s.say("One, two, three, go! {N} ran as fast as the wind.", '"Ready, set, go!" {N} ran far ahead.')
    if s.rng.random() < 0.5:
        s.say("Soon {he} was so far ahead that {he} stopped to [rest|eat {food}|sleep under a tree].",
              "{N} looked back. {F} was far behind. So {he} sat down to [rest|take a nap].")
        s.say("{F} did not stop. {FHE} ran on and on, step by step.",
              "But {F} kept going, slowly but surely.")
        s.say("When {N} [woke up|looked up], {F} was almost there! {N} ran, but it was too late.",
              "{N} jumped up and ran, but {F} was first.")
        s.say("{F} won the race!", "Everyone cheered for {F}.")
        s.say('"You won," said {N}. "I am sorry that I laughed at you."',
              "{N} was ashamed. \"Well done, {F},\" {he} said.")
        s.say('"Thank you," said {F}. "Do you want to run together tomorrow?"',
              "{F} smiled and shook {his} {hand}.", chance=0.7)
        s.ending("{N} learned not to [brag|laugh at others].", "{N} learned that slow and steady can win.",
                 "From that day on, {N} never laughed at others.")
    else:
        s.say("But {he} did not look at the ground. {He} fell over a [root|stone] and hurt {his} [knee|foot].",
              "Then {N} [slipped in the mud|fell over a stone]. \"Ouch!\" {he} cried.")
        s.say("{F} came by. {FHE} could win now. But {fhe} stopped.", "{F} saw {him} and stopped.")
        s.say('"Are you hurt?" asked {F}. "Let me help you."', '"Take my {hand}," said {F}.')
        s.say('"But you could win," said {N}. "A friend is more important," said {F}.',
              '"Why do you help me?" asked {N}. "I was not nice." "Because we are friends," said {F}.')
        s.say("They walked to the end together, {hand} in {hand}.",
              "{F} helped {him} up, and they finished the race together.")
        s.ending("{N} learned that being kind is better than being fast.",
                 "After that, {N} never bragged again.",
                 "{N} said sorry, and they were friends [forever|from then on].")


BUILDS = [("sandcastle", "at the beach", "A big wave came and washed it away.", "sand and shells",
           "far from the water"),
          ("tower of blocks", "in the living room", "The dog ran by and the tower fell down.",
           "blocks of every color", "in the corner"),
          ("snowman", "in the garden", "The sun came out and the snowman began to melt.", "snow and a carrot",
           "in the shade"),
          ("tree house", "in the big tree", "A strong wind blew and it fell down.", "wood and rope",
           "with strong ropes"),
          ("dam", "by the river", "The water was too strong and broke it.", "sticks and stones",
           "with bigger stones"),
          ("little hut", "in the forest", "It rained and the roof fell in.", "sticks and leaves",
           "with more leaves")]


def build(s):
    thing, where, ruin, stuff, fix = s.pick(BUILDS)
    s.facts.update(thing=thing, where=where, ruin=ruin, stuff=stuff, fix=fix)
    s.opening()
    s.say("One day, {N} wanted to build a {thing}.",
          "One day, {N} and {friend} were {where}. They wanted to build a {thing}.",
          '"Let us build a {thing}," {N} said to {friend} one day.')
    s.say("They used {stuff}.", "They worked all morning with {stuff}.",
          "{F} brought the things they needed, and {N} put them together.")
    s.say("It got bigger and bigger.", "It was the best {thing} they had ever made.",
          '"It looks great!" said {F}.')
    s.part()
    s.say("But then something bad happened. {ruin}", "Then, oh no! {ruin}", "{ruin}")
    s.say("{N} was so sad. \"All our work is gone,\" {he} said.", '"No!" cried {N}. {He} wanted to go home.',
          "{N} began to cry.")
    s.say('"[Do not be sad|Do not cry], {N}," said {F}. "We can build it again."',
          '"We will make a better one," said {F}.',
          '{F} thought for a while. "I know what to do," {fhe} said. "We will build it {fix}."')
    s.say('"You are right," said {N}.', "{N} [wiped {his} eyes|stood up] and nodded.")
    s.part()
    s.say("So they started again. This time they built it {fix}.", "They worked together and built it {fix}.")
    s.say("{K} came to help too.", "They sang while they worked.",
          "It took a long time, but they did not stop.", chance=0.6)
    s.say("When it was done, the new {thing} was even better than the old one.",
          "At the end of the day, there was a big, strong {thing}.")
    s.say('"We did it!" they [shouted|said] together.', "{N} and {F} [danced around it|hugged and laughed].")
    s.ending("{N} learned that you can always start again.",
             "{N} learned that working together [is best|makes hard things easy].",
             "They were tired, but very happy.")


def greedy(s):
    s.opening()
    s.say("One day, {k} made a big plate of {food}.", "One day, there was a bowl of {food} on the table.",
          "{K} put a basket of {food} in the kitchen.")
    s.say('"These are for everyone," said {k}. "[Take only two|You may have two]."',
          '"Please wait until dinner," {k} said.',
          '"Do not eat them all," said {k}. "They are for the party."')
    s.say("But the {food} smelled so good. {N} took one. Then {he} took one more.",
          "When {k} went out, {N} ate one. It was so sweet! So {he} ate another one.")
    s.say("{He} ate and ate until there were no {food} left.", "Soon all the {food} were gone.")
    s.part()
    s.say("Then {his} tummy began to hurt.", '"Ouch," said {N}. "My tummy hurts!"',
          "After a while, {N} felt sick.")
    s.say("{K} came back and saw that they were gone.",
          '{K} came in. "Where are all the {food}?" {khe} asked.')
    s.say("Then {friend} came. {FHE} wanted some {food}, but there were none left. {F} was sad.",
          "{F} came too, but there was nothing left for {fhim}.", chance=0.5)
    s.say('"I ate them all," {N} said. "I am sorry."', "{N} looked down. \"I ate too many,\" {he} said.")
    s.say('"Now you know why I said no," said {k}, and gave {him} some warm tea.',
          '{K} was not happy, but {khe} put {him} to bed and rubbed {his} tummy.',
          '"It is not good to take too much," said {k}.')
    s.part()
    s.say("The next day, {N} felt better. {He} helped {k} make new {food}.",
          "The next day, {N} wanted to make it right. {He} helped {k} make more {food}.")
    s.say("This time {he} took only one and gave the rest to {his} friends.",
          "{He} gave the first one to {F}.", "{N} shared them with everyone.")
    s.ending("{N} learned not to be greedy.", "{N} learned that sharing tastes better.",
             "From that day on, {N} never took more than {he} needed.")


def noise(s):
    s.facts.update(zip(("sound", "cause", "deed"), s.pick([
        ("Tap, tap, tap", "a branch that hit the window in the wind", "laughed at the branch"),
        ("Meow, meow", "a little wet kitten at the door", "let the kitten come in and gave it milk"),
        ("Hoo, hoo", "an owl in the big tree", "waved to the owl"),
        ("Scratch, scratch", "a tiny mouse that looked for crumbs", "gave the mouse a bit of cheese"),
        ("Drip, drip, drip", "water that fell into the sink", "turned off the water"),
        ("Woof, woof", "a small lost dog in the yard", "gave the dog a warm blanket"),
        ("Croak, croak", "a fat green frog by the step", "carried the frog back to the pond")])))
    s.opening()
    s.say("One night, {N} was in bed. {He} could not sleep.",
          "It was late at night. {N} was [almost asleep|in bed].", "One dark night, {N} woke up.")
    s.say('"{sound}." What was that?', "Then {he} heard a strange noise. \"{sound}.\"")
    s.say("{N} pulled the blanket over {his} head.", "{N} was scared. {His} heart beat fast.",
          '"Is it a monster?" {he} thought.')
    s.say('Again {he} heard it. "{sound}."', chance=0.5)
    s.part()
    s.say('{N} [called|ran to] {k}. "I hear a monster!" {he} said.',
          '"Help! There is something out there!" {he} told {k}.')
    s.say('"Let us look together," said {k}, and took a [lamp|light].',
          '"There are no monsters," said {k}. "Come, let us find out what it is."')
    s.say("They walked slowly and quietly. {N} held {k}'s {hand}.", "{N} was afraid, but {he} went too.")
    s.say("They looked. It was only {cause}!", "And what did they see? It was {cause}!")
    s.say("{N} {deed}.", "{N} was not scared now. {He} {deed}.")
    s.part()
    s.say('"It was not a monster at all," said {N}.', '{N} laughed. "I was afraid of nothing," {he} said.')
    s.say('"Now you know," said {k}. "Good night, brave little one."',
          "{K} tucked {him} in and gave {him} a kiss.")
    s.ending("Then {N} closed {his} eyes and slept until morning.",
             "{N} learned to look before being afraid.", "After that, strange noises did not scare {N}.")


def stuck(s):
    s.toy(["kite", "ball", "hat", "scarf"])
    s.opening()
    s.day()
    s.say("{He} had {aobj} with {him}.", "{He} [played|had fun] with {aobj}.")
    s.say("Then a strong wind came and the {thing} flew up into a tree.",
          "Suddenly, the wind took the {thing}. It got stuck in a tall tree.",
          "Up, up went the {thing}, and it got stuck in a tree.")
    s.say('"Oh no! My {thing}!" cried {N}.', "{N} looked up. The {thing} was too high.")
    s.say("{He} jumped, but {he} could not reach it.", "{He} tried to climb the tree, but it was too tall.",
          "{He} shook the tree, but the {thing} did not come down.",
          "{He} threw a stick at it, but it did not help.")
    s.say("{N} [sat down and cried|did not know what to do|was very upset].")
    s.part()
    which = s.rng.random()
    if which < 0.5:
        s.say("{friend} came by and saw {him}. \"What is wrong?\" {fhe} asked.",
              '"Can I help?" asked {friend}.')
        s.say('"My {thing} is in the tree," said {N}.', "{N} pointed up at the {thing}.")
        s.say('"I have an idea," said {F}. "Stand on my back!"', '"Let us use a long stick," said {F}.',
              '"I can climb on your back," said {F}.')
        s.say("Together they were tall enough. The {thing} fell down!",
              "They tried together, and the {thing} came free!")
        s.facts.update(saver="{F}", shim="{fhim}")
    else:
        s.say("Then {ahelper} came by. \"Why are you so sad?\" {hhe} asked.",
              "Just then, {ahelper} saw {him} and stopped.")
        s.say('"My {thing} is stuck in the tree," said {N}. "Can you help me, please?"',
              "{N} pointed up at the {thing}.")
        s.say('"Of course," said {helper}. {HHE} got the {thing} down.',
              "{H} reached up and took the {thing} from the tree.")
        s.facts.update(saver="{helper}", shim="{hhim}")
    s.say('"Thank you [so much|very much]!" said {N}.', "{N} hugged {saver}. \"Thank you!\" {he} said.")
    s.say("{He} gave {saver} some {food}.", "Then they played with the {thing} together.",
          '"You are welcome," said {saver}.')
    s.happy()
    s.ending("{N} learned that it is good to ask for help.",
             "After that, {N} held the {thing} [tight|with both {hand}s].",
             "{N} knew that two can do more than one.")


def messy(s):
    s.toy(POCKET)
    s.opening()
    s.say("But {N} did not like to clean up.", "But {his} room was always a mess.",
          "{He} never put {his} things away.")
    s.say('"Please clean your room," {k} said [every day|one day].', '"It is time to clean up," said {k}.')
    s.say('"Not now," said {N}. "I want to play."', '"Later," {N} always said.')
    s.say("There were toys on the bed, toys on the floor and toys on the chair.",
          "The floor was full of toys and socks.", chance=0.7)
    s.part()
    s.say("One day, {N} wanted to play with {his} {obj}.",
          "Then {friend} came. \"Let us play with your {obj},\" {fhe} said.")
    s.say("But {he} could not find it in the mess.", "{N} looked and looked, but there were too many things.")
    s.say("{He} stepped on a [block|toy] and fell. \"Ouch!\" {he} cried.", "A pile of books fell down. Bump!",
          chance=0.6)
    s.say('"{adult} was right," thought {N}. "I have to clean up."',
          '"I will never find it like this," said {N}.')
    s.say('"I will help you," said {k}.', '{K} came with a big box. "Let us do it together," {khe} said.',
          "So {he} began to clean.")
    s.part()
    s.say("{He} put the books on the shelf and the toys in the box.",
          "They put the socks in one basket and the toys in another.")
    s.say("Under the last [blanket|pillow|shirt], {he} found the {obj}!",
          "And there, behind the bed, was the {obj}!")
    s.say("Now the room was clean and there was a lot of space to play.",
          "The room looked [so nice|bright and clean].")
    s.happy()
    s.ending("From that day on, {N} put {his} toys away every night.",
             "{N} learned that it is easy to find things in a clean room.",
             '"I like my clean room," said {N}.')


def quarrel(s):
    s.toy(["book", "kite", "doll", "hat", "scarf", "teddy bear", "wagon", "drum"])
    s.opening()
    s.say("{N} had a good friend named {F}.", "{His} best friend was {F}.")
    s.say("One day, they found {aobj} {at}.", "One day, they both wanted to play with {aobj}.",
          "One day, they saw {aobj} on the grass.")
    s.say('"I saw it first!" said {N}. "No, I did!" said {F}.',
          '"It is mine!" {N} shouted. "No, it is mine!" shouted {F}.')
    s.say("They pulled and pulled. Rip! The {thing} broke.",
          "{N} pulled and {F} pulled. Then, crack! The {thing} broke in two.")
    s.say("Now no one could play with it.", "They both looked at the broken {thing}.")
    s.say('"It is your fault!" said {F}, and {fhe} went home.', "{N} was angry and ran home.",
          "They did not talk to each other the whole day.")
    s.part()
    s.say("At home, {N} felt [bad|sad]. {He} missed {F}.",
          "That night, {N} could not sleep. {He} thought about {F}.")
    s.say("{He} told {k} about it. \"What is more important, the {thing} or your friend?\" asked {k}.",
          '"A good friend is hard to find," said {k}.', '"Try to say sorry," said {k}.')
    s.say('"My friend," said {N}.', "{N} knew what to do.", chance=0.6)
    s.say("The next morning, {N} went to {F}. \"I am sorry,\" {he} said.",
          "In the morning, {N} ran to {F}'s home. \"I am sorry that I shouted,\" {he} said.")
    s.say('"I am sorry too," said {F}.', '{F} hugged {him}. "Me too," {fhe} said.')
    s.say("Together they fixed the {thing} with [glue|tape|string].",
          "They fixed the {thing} and took turns with it.")
    s.ending("{N} and {F} never fought over a toy again.",
             "They learned that friends are more important than things.",
             "After that, they shared everything.")


def snow_day(s):
    s.opening()
    s.say("One [cold|winter] morning, {N} looked out of the window. Everything was white!",
          "One morning, {N} woke up and saw snow.", "It was winter, and the first snow fell.")
    s.say('"It snowed!" {he} shouted.', '"Look, {adult}! Snow!" {he} called.')
    s.say("{K} helped {him} put on a warm coat and a hat.", '"Put on your warm hat," said {k}.',
          "{N} put on {his} boots and ran outside.")
    s.say("The snow was soft and cold. It fell on {his} nose.", "{N} caught snow on {his} tongue.",
          "{He} made a big snowball.", chance=0.8)
    s.part()
    s.say("{friend} came out too. They [made a snowman|built a snowman] with a carrot nose.",
          "Then {he} made a snowman with {friend}.")
    s.say("The snowman had two black stones for eyes.", "They used sticks for the arms.", chance=0.6)
    s.say('"Something is missing," said {F}. "He looks cold."', '"He needs something warm," {N} said.')
    s.say("So {N} gave the snowman {his} scarf.", "{N} took off {his} hat and put it on the snowman.")
    s.say("They laughed and danced around him.", '"Now he is happy," said {F}.',
          "The snowman looked very [happy|funny].")
    s.part()
    s.say("Soon {N}'s {hand}s were cold.", "When it got dark, they were cold and tired.",
          "After a while, {N} began to shake.")
    s.say('"Come in!" called {k}. {KHE} had made hot cocoa.', "{K} gave them hot soup and a blanket.",
          "{K} made a fire and gave them warm milk.")
    s.say("They sat by the window and looked at the snowman.", "It was warm and cozy inside.")
    s.ending("{N} hoped that it would snow again.", '"Good night, snowman," said {N}.',
             "{N} thought that winter was the best time of all.")


def wish(s):
    s.facts["want"] = s.pick(["a puppy", "a friend", "a little sister", "a kitten",
                              "a garden"]) if not s.animals else s.pick(["a friend", "a little sister",
                                                                         "a garden"])
    s.opening()
    s.say("But there was one thing {he} [really |]wanted. {He} wanted {want}.",
          "{N} wanted {want} more than anything.")
    s.say("One night, {N} looked out of the window and saw a [bright|falling|big] star.",
          "One night, a star fell from the sky.")
    s.say('"I wish for {want}," {he} whispered.', "{N} closed {his} eyes and made a wish.")
    s.say("{K} came in. \"What did you wish for?\" {khe} asked. \"It is a secret,\" said {N}.",
          "Then {he} went to bed and dreamed about it.", chance=0.8)
    s.part()
    s.say("The next day, nothing happened. {N} was sad.",
          "In the morning, {N} looked everywhere, but nothing was different.")
    s.say('"Wishes need some help," said {k}.',
          '{ahelper} said to {him}, "A wish is like a seed. You have to do something, too."')
    want = s.facts["want"]
    if want in ("a puppy", "a kitten"):
        pet = want.split()[1]
        s.facts["pet"] = pet
        s.say("So {N} learned how to take care of a {pet}. {He} read books and saved {his} money.",
              "So {N} helped at home every day, to show that {he} could take care of a {pet}.")
        s.say("One day, {k} came home with a box. Something moved inside!",
              "On {his} birthday, there was a box with holes in it.")
        s.facts["voice"] = "Woof" if pet == "puppy" else "Meow"
        s.say('A tiny {pet} looked out. "{voice}!" it said.')
        s.say('"A {pet}!" cried {N}. "My wish came true!"')
        s.say(f"{{N}} named it {s.pick(s.pets)} and they slept in the same room.",
              "{N} fed it and played with it every day.")
    elif want == "a friend":
        s.say("So {N} went out and smiled at everyone {he} met.",
              "So {N} went to the {place} and said hello to everyone.")
        s.say("There {he} met {stranger}. {FHE} was alone, too.", "{stranger} smiled back at {him}.")
        s.say('"Do you want to play?" asked {N}. "Yes!" said {F}.',
              '"I wished for a friend," said {F}. "Me too!" said {N}.')
        s.say("They played all day and had so much fun.", "They shared some {food} and told stories.")
    elif want == "a garden":
        s.say("So {N} took a small shovel and started to dig.",
              "So {N} planted [three|five|ten] seeds behind the house.")
        s.say("{K} helped {him}, and {F} brought more seeds.", "{F} came to help. {FHE} brought water.")
        s.say("{N} gave the plants water every day.")
        s.say("In summer, there were red, blue and yellow flowers everywhere.",
              "Soon there were flowers and [carrots|beans|pumpkins].")
        s.say('"I have a garden!" said {N}. "My wish came true!"')
    else:
        s.say("So {N} put away {his} old baby toys and made a little blanket.",
              "So {N} practiced singing soft songs for a baby.")
        s.say('One day, {k} said, "We have a surprise for you. There will be a new baby!"')
        s.say("In spring, the baby came. She was very small.",
              "Soon the baby was there. She had tiny {hand}s.")
        s.say("{N} sang to her and she smiled.", '"Hello, little sister," said {N}, and kissed her nose.')
    s.ending("{N} learned that wishes come true when you work for them.",
             "That night, {N} looked at the stars and said thank you.",
             "{N} looked up at the star and smiled.")


def errand(s):
    s.facts["buy"] = s.pick(["bread", "milk", "eggs", "honey", "apples", "cheese"])
    s.opening()
    s.say('One day, {k} said, "Please go to the market and buy some {buy}."',
          "One morning, {k} gave {him} a coin to buy {buy}.")
    s.say('"I can do it," said {N}. {He} felt very big.',
          "{N} took a [little |]basket and walked down the road.")
    s.say("On the way, {he} saw [a funny frog|some pretty flowers|a big puddle]. {He} stopped to play.",
          "{N} sang and hopped all the way.", "On the way, {he} met {friend} and they played for a while.")
    s.say("At the market, {he} wanted to pay. But the coin was gone!",
          "Then {he} looked in {his} pocket. There was no coin!")
    s.say('"Oh no, I lost it," {he} said. {He} was close to tears.',
          "{N} was so worried. What would {k} say?")
    s.part()
    s.say("{He} walked back and looked for the coin. It was not there.",
          "{N} looked on the road, but {he} did not find it.", chance=0.8)
    s.say('Then {he} met {ahelper}. "Did you lose something?" {hhe} asked. "Yes, my coin," said {N}.',
          'Then {ahelper} came by. "Is this your coin? I found it on the road," {hhe} said. "Yes!" said {N}.',
          '{ahelper} saw {him}. "Why are you sad?" {hhe} asked. "I lost my coin for the {buy}," said {N}.')
    s.say("{H} smiled and put the coin in {his} {hand}.",
          '"Here it is," said {helper}. "Take good care of it."')
    s.say("{N} thanked {hhim}. Then {he} ran back to the market and bought the {buy}.",
          "Now {N} could buy the {buy}. {He} held the basket tight all the way home.")
    s.part()
    s.say("At home, {N} told {k} everything.", '"Well done," said {k}. "You brought the {buy} home."')
    s.say('"You are honest," said {k}, and gave {him} a hug.',
          "They ate the {buy} together, and it tasted very good."
          if s.facts["buy"] != "eggs" else "They cooked the eggs and ate them together.",
          "{K} laughed and said, \"Next time, close your pocket.\"")
    s.ending("{N} learned to be careful with money.", "{N} was proud that {he} had done it all alone.",
             "The next day, {N} brought some {food} to {helper} to say thank you.")


def finder(s):
    s.toy(["ring", "key", "doll", "teddy bear", "hat", "scarf", "book", "whistle", "ball"])
    s.opening()
    s.day()
    s.say("On the ground, {he} found {aobj}.", "Then {he} saw {aobj} in the grass.",
          "Something was lying on the path. It was {aobj}.")
    s.say('"How pretty!" said {N}. "I want to keep it."', "{N} liked it so much that {he} wanted to keep it.",
          '"Now it is mine," thought {N}, and {he} took it home.')
    s.part()
    s.say("But then {he} heard someone cry. It was {stranger}.",
          "Soon {he} met {stranger} who looked very sad.")
    s.say('"I lost my {obj}," said {F}. "[My grandma gave it to me|It is my favorite]."',
          '"Did you see my {obj}?" asked {F}. "I lost it."')
    s.say("{N} held the {thing} behind {his} back. What could {he} do?",
          "{N} did not know what to do. {He} really liked the {thing}.",
          "{N} thought about it. {He} would be sad, too, without {his} favorite toy.")
    s.say('Then {he} held it out. "I found it," {he} said. "Here it is."',
          '"Is this your {thing}?" {N} asked, and gave it to {F}.')
    s.say('"My {thing}! Thank you!" {F} [cried|shouted] and jumped for joy.',
          "{F} stopped crying and hugged the {thing}.", "{F}'s face lit up. \"You found it!\" {fhe} said.")
    s.part()
    s.say('"You are so [kind|honest]," said {F}. "Do you want to be my friend?"',
          "{F} gave {him} some {food} to say thank you.")
    s.say("{N} felt better than if {he} had kept the {thing}.", "{N} was glad that {he} had given it back.")
    s.say("They played together [until it was dark|all day].",
          "Then they sat down and talked for a long time.", chance=0.7)
    s.ending("{N} learned that being honest feels good.", "{N} and {F} were friends from that day on.",
             '"You did the right thing," said {k}.')


PLOTS = [lost_thing, sharing, hurt_animal, fear, skill, rainy_day, truth, baking, lost_way, new_friend, seed,
         race,
         build, greedy, noise, stuck, messy, quarrel, snow_day, wish, errand, finder]


def story(rng, names=ALL_NAMES):
    """Returns the text of one story drawn with `rng`, from the first `names` names of each kind."""
    s = Story(rng, names)
    PLOTS[rng.randrange(len(PLOTS))](s)
    return s.text()


def stories(seed_value, count, names=ALL_NAMES):
    """Yields `count` stories; equal arguments give equal stories."""
    rng = random.Random(seed_value)
    for _ in range(count):
        yield story(rng, names)


def main():
    parser = argparse.ArgumentParser(description="Print generated stories.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--names", type=int, default=ALL_NAMES, help="most names of each kind to use")
    args = parser.parse_args()
    print("\n\n".join(stories(args.seed, args.count, args.names)))


if __name__ == "__main__":
    main()

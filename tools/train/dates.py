#!/usr/bin/env python3
"""Writes dates the way people do, in many languages and habits, each with its ISO 8601 reading.

Every text has one reading only.  Where people disagree, the rules are:
  - slashes: month first (3/4/2021 is 4 March), unless the first number is above 12 or a word that is not
    English stands beside the date (le 3/4/2021 is 3 April);
  - dots and dashes: day first (3.4.2021 and 3-4-2021 are 3 April);
  - a year of four digits or of a Japanese era in front: year, month, day, whatever the separator;
  - a year of two digits: 1950 to 2049.

One day in fifty is set aside: training never draws it, and the held-out lines draw no other.
The lines are dedicated to the public domain (CC0 1.0).
"""
import argparse
import calendar
import collections
import dataclasses
import datetime
import random
import re
import unicodedata

FIRST_YEAR, LAST_YEAR = 1900, 2099
PIVOT = 50  # '50 is 1950 and '49 is 2049

Line = collections.namedtuple("Line", "text iso language habit")


@dataclasses.dataclass
class Language:
    name: str
    months: str  # words separated by spaces; a/b are two spellings of one
    short_months: str
    weekdays: str  # Monday first
    short_weekdays: str
    named: list  # forms with a month's name
    prefixes: list
    numeric: list = dataclasses.field(default_factory=list)  # forms in digits, used beside a word only
    weekday_forms: tuple = ("{w}, {date}", "{w} {date}")
    ordinal: staticmethod = None  # how a day is written as "4th", where {ord} occurs


def english_ordinal(day):
    return f"{day}{'th' if 10 < day < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def first_only(suffix):
    return lambda day: f"1{suffix}" if day == 1 else str(day)


# Fields of a form: d and m are numbers (in some lines with leading zeros), month is a name, ord an ordinal,
# spelled one in words, y a year of four or two digits, Y one of four, s a separator chosen once for the line.
PLAIN = (["{d} {month} {y}"] * 5 +
         ["{d}{s}{month}{s}{y}", "{d} {month}, {y}", "{month} {d}, {y}", "{Y} {month} {d}"])
DAY_FIRST = ["{d}/{m}/{y}", "{d}.{m}.{y}", "{d}-{m}-{y}"]
IBERIAN = ["{d} de {month} de {y}"] * 6 + ["{ord} de {month} de {y}", "{d} {month} {y}", "{d}{s}{month}{s}{y}"]

LANGUAGES = [
    Language("English", "January February March April May June July August September October November December",
             "Jan Feb Mar Apr May Jun Jul Aug Sep/Sept Oct Nov Dec",
             "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
             "Mon Tue/Tues Wed Thu/Thur/Thurs Fri Sat Sun",
             ["{month} {d}, {y}"] * 4 + ["{d} {month} {y}"] * 3 + ["{d}{s}{month}{s}{y}"] * 2 + [
                 "{month} {d} {y}", "{month} {ord}, {y}", "{month} {ord} {y}", "{ord} {month} {y}",
                 "{ord} of {month} {y}", "the {ord} of {month}, {y}", "{d} {month}, {y}", "{Y} {month} {d}",
                 "{Y}, {month} {ord}", "{month}{s}{d}{s}{y}", "{month} {spelled}, {y}",
                 "the {spelled} of {month} {y}"],
             ["on", "due", "born", "by", "since", "until", "from", "dated", "Date:", "as of", "before", "after",
              "expires", "deadline:", "effective", "born on", "due by", "signed on", "DOB:", "valid until"],
             ["{m}/{d}/{y}"], ordinal=english_ordinal),
    Language("German",
             "Januar/Jänner Februar März/Maerz April Mai Juni Juli August September Oktober November Dezember",
             "Jan. Feb. März/Mrz. Apr. Mai Jun./Juni Jul./Juli Aug. Sep./Sept. Okt. Nov. Dez.",
             "Montag Dienstag Mittwoch Donnerstag Freitag Samstag/Sonnabend Sonntag", "Mo. Di. Mi. Do. Fr. Sa. So.",
             ["{d}. {month} {y}"] * 7 + ["{d}.{month} {y}", "{d} {month} {y}", "{d}{s}{month}{s}{y}"],
             ["am", "den", "vom", "ab dem", "bis zum", "seit dem", "geb.", "geboren am", "fällig am", "Datum:"],
             ["{d}.{m}.{y}"] * 4 + DAY_FIRST, ("{w}, {date}", "{w}, den {date}", "{w} {date}")),
    Language("French", "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
             "janv./jan. févr./fév. mars avr. mai juin juil. août sept. oct. nov. déc.",
             "lundi mardi mercredi jeudi vendredi samedi dimanche", "lun. mar. mer. jeu. ven. sam. dim.",
             ["{ord} {month} {y}"] * 3 + PLAIN,
             ["le", "du", "depuis le", "avant le", "né le", "née le", "fait le", "jusqu'au", "à partir du"],
             ["{d}/{m}/{y}"] * 4 + DAY_FIRST, ("{w} {date}", "{w}, {date}", "le {w} {date}"), first_only("er")),
    Language("Spanish",
             "enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre",
             "ene. feb. mar. abr. may. jun. jul. ago. sept./sep. oct. nov. dic.",
             "lunes martes miércoles jueves viernes sábado domingo", "lun. mar. mié. jue. vie. sáb. dom.",
             IBERIAN + ["{d} de {month} del {y}", "{month} {d}, {y}"],
             ["el", "desde el", "hasta el", "nacido el", "nacida el", "fecha:", "antes del", "a partir del"],
             ["{d}/{m}/{y}"] * 4 + DAY_FIRST, ("{w}, {date}", "{w} {date}", "el {w} {date}"), first_only("º")),
    Language("Italian", "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
             "gen. feb. mar. apr. mag. giu. lug. ago. set./sett. ott. nov. dic.",
             "lunedì martedì mercoledì giovedì venerdì sabato domenica", "lun. mar. mer. gio. ven. sab. dom.",
             ["{ord} {month} {y}"] * 2 + PLAIN,
             ["il", "dal", "entro il", "nato il", "nata il", "fino al", "del", "scadenza:", "data:", "addì"],
             ["{d}/{m}/{y}"] * 4 + DAY_FIRST, ("{w} {date}", "{w}, {date}"), first_only("º")),
    Language("Portuguese", "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
             "jan. fev. mar. abr. mai. jun. jul. ago. set. out. nov. dez.",
             "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
             "seg. ter. qua. qui. sex. sáb. dom.", IBERIAN,
             ["em", "no dia", "a partir de", "até", "nascido em", "nascida em", "vence em", "desde", "data:"],
             ["{d}/{m}/{y}"] * 4 + DAY_FIRST, ordinal=first_only("º")),
    Language("Dutch", "januari februari maart april mei juni juli augustus september oktober november december",
             "jan. feb. mrt. apr. mei jun. jul. aug. sep./sept. okt. nov. dec.",
             "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag", "ma di wo do vr za zo", PLAIN,
             ["op", "sinds", "vanaf", "tot", "geboren op", "uiterlijk", "d.d.", "vóór", "datum:"],
             ["{d}-{m}-{y}"] * 4 + DAY_FIRST),
    Language("Swedish", "januari februari mars april maj juni juli augusti september oktober november december",
             "jan. feb. mars/mar. apr. maj juni/jun. juli/jul. aug. sep./sept. okt. nov. dec.",
             "måndag tisdag onsdag torsdag fredag lördag söndag", "mån tis ons tors/tor fre lör sön",
             ["den {d} {month} {y}", "den {ord} {month} {y}"] * 2 + PLAIN,
             ["den", "född", "senast", "från", "sedan", "till", "före", "född den", "datum:"],
             ["{Y}-{m}-{d}"] * 3 + DAY_FIRST, ("{w} {date}", "{w}, {date}", "{w} den {date}"),
             lambda day: f"{day}:{'a' if day in (1, 2, 21, 22, 31) else 'e'}"),
    Language("Polish",
             "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
             "sty. lut. mar. kwi. maj/maja cze. lip. sie. wrz. paź. lis. gru.",
             "poniedziałek wtorek środa czwartek piątek sobota niedziela", "pon. wt. śr. czw. pt. sob. niedz./nd.",
             ["{d} {month} {y}", "{d} {month} {Y} r.", "{d} {month} {Y} roku"] + PLAIN,
             ["dnia", "od", "do", "ur.", "urodzony", "przed", "z dnia", "w dniu", "termin:"],
             ["{d}.{m}.{y}"] * 3 + ["{d}.{m}.{Y} r."] + DAY_FIRST),
    Language("Turkish", "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık",
             "Oca. Şub. Mar. Nis. May. Haz. Tem. Ağu. Eyl. Eki. Kas. Ara.",
             "Pazartesi Salı Çarşamba Perşembe Cuma Cumartesi Pazar", "Pzt. Sal. Çar. Per. Cum. Cmt. Paz.", PLAIN,
             ["tarih:", "doğum:", "son tarih:", "doğum tarihi:", "teslim:", "vade:"],
             ["{d}.{m}.{y}"] * 3 + DAY_FIRST, ("{date} {w}", "{date}, {w}", "{w}, {date}")),
    Language("Russian", "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
             "янв. фев./февр. мар./марта апр. мая/май июн./июня июл./июля авг. сен./сент. окт. ноя./нояб. дек.",
             "понедельник вторник среда четверг пятница суббота воскресенье", "пн вт ср чт пт сб вс",
             ["{d} {month} {y}", "{d} {month} {Y} г.", "{d} {month} {Y} года", "{d}-го {month} {Y}"] + PLAIN,
             ["от", "до", "с", "после", "не позднее", "родился", "родилась", "дата:", "срок:", "к"],
             ["{d}.{m}.{y}"] * 3 + ["{d}.{m}.{Y} г."] + DAY_FIRST),
]
ENGLISH = LANGUAGES[0]
LATIN = {language.name for language in LANGUAGES} - {"Russian"}

ROMAN = "I II III IV V VI VII VIII IX X XI XII".split()
ROMAN_FORMS = (["{d} {roman} {y}"] * 2 + ["{d}.{roman}.{y}"] * 2 +
               ["{d}. {roman}. {y}", "{d}-{roman}-{y}", "{d}/{roman}/{y}", "{d} {roman} {Y} r."])
# Without any word beside them; the second list is for days above 12.
NUMERIC = (["{m}/{d}/{y}"] * 4 + ["{d}.{m}.{y}"] * 4 + ["{d}-{m}-{y}"] * 2 + ["{Y}-{m}-{d}"] * 3 +
           ["{Y}/{m}/{d}", "{Y}.{m}.{d}", "{Y}{mm}{dd}", "{Y} {m} {d}", "{Y}. {m}. {d}."])
NUMERIC_LATE_DAY = ["{d}/{m}/{y}"]

ORDINALS = ("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
            "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third "
            "twenty-fourth twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth "
            "thirty-first").split()

# East Asia: the weekdays' signs, Monday first, and how dates are written.
JAPANESE_WEEKDAYS, CHINESE_WEEKDAYS, KOREAN_WEEKDAYS = "月火水木金土日", "一二三四五六日", "월화수목금토일"
JAPANESE = (["{Y}年{m}月{d}日"] * 5 + ["{y}年{m}月{d}日", "{Y}年 {m}月 {d}日", "{Y}/{m}/{d}", "{Y}.{m}.{d}"])
JAPANESE_ERAS = [("令和", "R", datetime.date(2019, 5, 1)), ("平成", "H", datetime.date(1989, 1, 8)),
                 ("昭和", "S", datetime.date(1926, 12, 25)), ("大正", "T", datetime.date(1912, 7, 30)),
                 ("明治", "M", datetime.date(1868, 10, 23))]
CHINESE = (["{Y}年{m}月{d}日"] * 4 + ["{Y}年{m}月{d}号", "{Y}年{m}月{d}號", "{y}年{m}月{d}日", "{Y}年 {m} 月 {d} 日"])
KOREAN = (["{Y}년 {m}월 {d}일"] * 5 + ["{Y}년{m}월{d}일", "{y}년 {m}월 {d}일", "{Y}. {m}. {d}.", "{Y}.{m}.{d}"])
EAST_ASIAN_PREFIXES = {"Japanese": ["日付:", "期限:", "生年月日:", "発行日"],
                       "Chinese": ["日期:", "截至", "生于", "出生日期:", "于"],
                       "Korean": ["날짜:", "생년월일:", "마감일", "작성일"]}
EAST_ASIAN_FORMS = {"Japanese": JAPANESE, "Chinese": CHINESE, "Korean": KOREAN}
MARKS = ["No. ", *"*#-~†•→★✓►©📅⏰🎂☀"]  # in front of any line, of no language


def is_set_aside(day):
    """One day in fifty, spread evenly by Fibonacci hashing."""
    return day.toordinal() * 2654435769 % 2**32 < 2**32 // 50


def draw_day(rng, held_out):
    """Years are equally likely; now and then it is a leap day."""
    while True:
        year = rng.randint(FIRST_YEAR, LAST_YEAR)
        leap = calendar.isleap(year)
        if rng.random() < 0.01 and leap:
            day = datetime.date(year, 2, 29)
        else:
            day = datetime.date(year, 1, 1) + datetime.timedelta(rng.randrange(366 if leap else 365))
        if is_set_aside(day) == held_out:
            return day


def pick(rng, words, index):
    return rng.choice(words.split()[index].split("/"))


def fill(rng, form, day, **more):
    """`form` with the numbers of `day`, all of them with or without leading zeros."""
    pad = rng.random() < 0.4
    year = str(day.year)
    short = 1900 + PIVOT <= day.year < 2000 + PIVOT and rng.random() < 0.25
    if short:
        # An apostrophe only where the year stands apart, as in "May '99".
        apart = " {y}" in form and rng.random() < 0.5
        year = rng.choice("'’") * apart + year[2:]
    number = "{:02}" if pad else "{}"
    return form.format(d=number.format(day.day), m=number.format(day.month), dd=f"{day.day:02}",
                       mm=f"{day.month:02}", y=year, Y=day.year, **more)


def add_weekday(rng, language, day, date):
    if rng.random() < 0.5:
        word = pick(rng, language.weekdays, day.weekday())
    else:
        word = pick(rng, language.short_weekdays, day.weekday())
        word = word.rstrip(".") if rng.random() < 0.5 else word
    return rng.choice(language.weekday_forms).format(w=word, date=date)


def named(rng, day, language):
    """A date with the month's name, as written in one of LANGUAGES."""
    form = rng.choice(language.named)
    short = rng.random() < 0.45
    month = pick(rng, language.short_months if short else language.months, day.month - 1)
    if rng.random() < 0.5 or "{s}" in form:
        month = month.rstrip(".")
    date = fill(rng, form, day, month=month, s=rng.choice(["-", "-", "/", ".", "", " - "]),
                ord=language.ordinal(day.day) if language.ordinal else day.day, spelled=ORDINALS[day.day - 1])
    if rng.random() < 0.25:
        date = add_weekday(rng, language, day, date)
    if rng.random() < 0.25:
        date = f"{rng.choice(language.prefixes)} {date}"
    habit = "day in words" if "spelled" in form else "short month name" if short else "month name"
    return date, language.name, habit


def numeric_beside_word(rng, day, language):
    """Digits, read as the language of the word beside them does."""
    date = fill(rng, rng.choice(language.numeric), day)
    word_in_front = rng.random() < 0.7
    if not word_in_front or rng.random() < 0.2:
        date = add_weekday(rng, language, day, date)
    if word_in_front:
        date = f"{rng.choice(language.prefixes)} {date}"
    return date, language.name, "digits beside a word"


def numeric(rng, day):
    forms = NUMERIC + (NUMERIC_LATE_DAY * 4 if day.day > 12 else [])
    return fill(rng, rng.choice(forms), day), "none", "digits only"


def roman(rng, day):
    return fill(rng, rng.choice(ROMAN_FORMS), day, roman=ROMAN[day.month - 1]), "none", "Roman month"


def ideographs(number, rng):
    """1 to 39 as Chinese and Japanese write it."""
    digits = "〇一二三四五六七八九"
    tens, ones = divmod(number, 10)
    front = {0: "", 1: "十", 2: rng.choice(["二十", "二十", "廿"]) if ones else "二十", 3: "三十"}[tens]
    return front + (digits[ones] if ones else "")


def in_ideographs(rng, day):
    zero = rng.choice("〇零")
    year = "".join((zero + "一二三四五六七八九")[int(digit)] for digit in str(day.year))
    return f"{year}年{ideographs(day.month, rng)}月{ideographs(day.day, rng)}日"


def japanese_era(rng, day):
    name, letter, start = next(era for era in JAPANESE_ERAS if day >= era[2])
    year = day.year - start.year + 1
    if rng.random() < 0.3:
        separator = rng.choice("./-")
        return f"{letter}{year}{separator}{day.month}{separator}{day.day}"
    return fill(rng, "{name}{era}年{m}月{d}日", day, name=name, era="元" if year == 1 else year)


def wide(text):
    """Digits as wide as an ideograph, as East Asian input methods write them."""
    return "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isdigit() else c for c in text)


def east_asian(rng, day, language, always_era=False):
    habit = "digits and signs"
    if not always_era and language != "Korean" and rng.random() < 0.15:
        date, habit = in_ideographs(rng, day), "ideographs"
    elif always_era or (language == "Japanese" and rng.random() < 0.2):
        date, habit = japanese_era(rng, day), "Japanese era"
    else:
        date = fill(rng, rng.choice(EAST_ASIAN_FORMS[language]), day)
    if rng.random() < 0.3:
        if language == "Japanese":
            sign = JAPANESE_WEEKDAYS[day.weekday()]
            date += rng.choice(["({})", "（{}）", " {}曜日", "({}曜)"]).format(sign)
        elif language == "Chinese":
            sign = CHINESE_WEEKDAYS[day.weekday()]
            date += rng.choice([" 星期{}", "星期{}", " 周{}", "(週{})", "（{}）"]).format(sign)
        else:
            date += rng.choice(["({})", " {}요일", " ({})"]).format(KOREAN_WEEKDAYS[day.weekday()])
    if rng.random() < 0.2:
        date = f"{rng.choice(EAST_ASIAN_PREFIXES[language])} {date}"
    return wide(date) if rng.random() < 0.1 else date, language, habit


def change_case(rng, text, language):
    how = rng.random()
    if how < 0.6:
        return text
    if how < 0.8:
        return text.lower()
    if language == "Turkish" and rng.random() < 0.7:
        text = text.replace("i", "İ")
    return text.upper()


def without_accents(text):
    # The letters that have no decomposition are Polish and Turkish.
    parts = unicodedata.normalize("NFD", text.translate(str.maketrans("łŁı", "lLi")))
    return unicodedata.normalize("NFC", "".join(c for c in parts if not "\u0300" <= c <= "\u036f"))


def stray(rng, text):
    """Spaces and punctuation where they do not belong, or none where they do."""
    how = rng.randrange(7)
    if how == 0:
        return text.replace(" ", "  ", 1)
    if how == 1:
        return rng.choice([" ", "  ", "\u00a0"]) + text + rng.choice(["", " "])
    if how == 2:
        return text.replace(", ", ",")
    if how == 3:
        return text.replace(",", " ,")
    if how == 4:
        return re.sub(r"(?<=\d)([-/.])(?=\d)", r" \1 ", text)
    if how == 5:
        return re.sub(r"(?<=\d)([-/.])(?=\d)", r"\1 ", text)
    return text + rng.choice([",", ".", ";", ":", "!", "?", " .", ")"])


def line(rng, held_out=False, more_eras=0.0):
    """A Line about a day that is, or is not, one of those set aside.

    `more_eras` is the share of lines that are made Japanese era dates on top of those that are anyway.
    """
    day = draw_day(rng, held_out)
    kind = rng.random()
    if more_eras and rng.random() < more_eras:
        text, language, habit = east_asian(rng, day, "Japanese", always_era=True)
    elif kind < 0.14:
        text, language, habit = numeric(rng, day)
    elif kind < 0.18:
        text, language, habit = roman(rng, day)
    elif kind < 0.33:
        text, language, habit = east_asian(rng, day, rng.choice(list(EAST_ASIAN_PREFIXES)))
    else:
        spoken = ENGLISH if kind < 0.48 else rng.choice(LANGUAGES[1:])
        write = numeric_beside_word if rng.random() < 0.15 else named
        text, language, habit = write(rng, day, spoken)
    text = change_case(rng, text, language)
    # Elsewhere marks make another letter or, in Hangul, a syllable.
    if language in LATIN and rng.random() < 0.12:
        text = without_accents(text)
    if rng.random() < 0.02:
        text = f"{rng.choice(MARKS)}{text}"
    if rng.random() < 0.15:
        text = stray(rng, text)
    return Line(text, day.isoformat(), language, habit)


def lines(seed, held_out=False, more_eras=0.0):
    """Endless lines."""
    rng = random.Random(seed)
    while True:
        yield line(rng, held_out, more_eras)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--held-out", action="store_true", help="the days that training never sees")
    args = parser.parse_args()
    for made, _ in zip(lines(args.seed, args.held_out), range(args.count)):
        print(f"{made.text}\t{made.iso}\t{made.language}\t{made.habit}")


if __name__ == "__main__":
    main()

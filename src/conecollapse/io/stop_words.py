"""Words that say nothing of a topic: function words of six languages, and which of the languages
some texts are in.

English words are scikit-learn's. The other lists are ours: articles, pronouns, prepositions,
conjunctions, auxiliary verbs and the commonest adverbs, in lower case, with their accents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

GERMAN = """
ab aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes
auch auf aus bei beim bin bis bist da dabei dadurch dafür dagegen daher damit danach dann daran
darauf daraus darf darin darüber darum das dass dasselbe davon davor dazu dein deine deinem deinen
deiner dem den denen denn dennoch der deren derselbe des deshalb dessen dich die dies diese
dieselbe diesem diesen dieser dieses dir doch dort du durch eben ein eine einem einen einer eines
einige einigen einiger einmal er es etwa etwas euch euer eure für gegen gewesen gibt habe haben
hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im immer in indem
ins ist ja je jede jedem jeden jeder jedes jedoch jene jenem jenen jener jenes jetzt kann kein
keine keinem keinen keiner können könnte man manche mehr mein meine meinem meinen meiner mich mir
mit muss müssen nach nachdem nicht nichts noch nun nur ob oder ohne schon sehr sein seine seinem
seinen seiner seit selbst sich sie sind so sobald solche solchem solchen solcher soll sollte
sollten sondern sonst sowie über um und uns unser unsere unter viel viele vielen vom von vor war
waren warum was weg weil weiter welche welchem welchen welcher welches wenn wer werde werden wie
wieder will wir wird wo wollen wurde wurden während würde würden zu zum zur zwar zwischen
"""
FRENCH = """
afin ai ainsi alors après as au aucun aucune aujourd'hui auprès auquel aura aurait aussi autre
autres aux avaient avais avait avant avec avez avoir avons ayant bien car ce ceci cela celle
celles celui cependant ces cet cette ceux chaque chez comme comment contre dans de depuis des dès
donc dont du duquel elle elles en encore entre es est et étaient étais était étant été être eu eux
fait faire fois font furent fut hors ici il ils je jusque la là laquelle le lequel les lesquelles
lesquels leur leurs lors lorsque lui ma mais malgré me même mêmes mes mon moins ne ni non nos
notre nous on ont or ou où par parce parmi pas pendant peu peut peuvent plus plusieurs plutôt pour
pourquoi près puis puisque qu quand que quel quelle quelles quelque quelques quels qui quoi sa
sans se sera serait seront ses si sien soi soit son sont sous souvent suis sur ta tandis te tel
telle telles tels tes toi ton toujours tous tout toute toutes très trop tu un une va vers voici
voilà vos votre vous
"""
SPANISH = """
a al algo alguna algunas alguno algunos ambos ante antes aquel aquella aquellas aquello aquellos
aquí así aún aunque bajo bien cada casi como cómo con contra cual cuál cuales cualquier cuando
cuándo cuanto cuya cuyas cuyo cuyos de del desde después donde dónde dos durante e el él ella
ellas ello ellos en entonces entre era eran eres es esa esas ese eso esos esta está estaba estado
están estar estas este esto estos estoy fin fue fuera fueron ha había habían haber hace hacer
hacia han hasta hay he hoy la las le les lo los luego mas más me menos mi mí mientras mis misma
mismas mismo mismos mucha muchas mucho muchos muy nada ni ningún ninguna ninguno no nos nosotros
nuestra nuestras nuestro nuestros nunca o os otra otras otro otros para pero poca poco pocos
podemos poder por porque pues puede pueden que qué quien quién quienes se sea sean según ser será
serán si sí sido siempre sin sino sobre solo sólo somos son soy su sus suya suyo tal también
tampoco tan tanto te tenemos tener tengo ti tiene tienen toda todas todavía todo todos tras tu tú
tus un una unas uno unos usted ustedes va vez vosotros vuestra vuestro y ya yo
"""
ITALIAN = """
a ad agli ai al alcuna alcune alcuni alcuno alla alle allo allora altra altre altri altro anche
ancora avere aveva avevano c'è che chi ci ciascun ciascuna cioè ciò coi col come con contro cosa
così cui da dagli dai dal dall dalla dalle dallo degli dei del dell della delle dello dentro di
dopo dove due dunque durante e è ebbe ecco ed egli ella era erano essa esse essendo essere essi fa
fare fino fra fu furono già gli ha hai hanno ho i il in infatti inoltre invece io la là le lei li
lì lo loro lui ma me mentre mi mia mie miei mio molta molte molti molto ne né negli nei nel nell
nella nelle nello nessun nessuna nessuno noi non nostra nostre nostri nostro o ogni ognuno oltre
ora ossia parte per perché perciò però più poca poche pochi poco poi poiché possono prima proprio
può qua qual quale quali qualche quando quanta quanti quanto quasi quella quelle quelli quello
questa queste questi questo qui quindi sarà saranno se sé sei sembra sempre senza si sì sia siamo
siano siete sono sopra sotto sta stata state stati stato stessa stesse stessi stesso su sua sue
sugli sui sul sull sulla sulle sullo suo suoi tale tali tanto te ti tra tu tua tue tuo tuoi tutta
tutte tutti tutto un una uno verso vi voi vostra vostri vostro
"""
PORTUGUESE = """
a à agora ainda algo algum alguma algumas alguns ali além ambos ante antes ao aos apenas após
aquela aquelas aquele aqueles aquilo as às assim até bem cada com como contra cuja cujas cujo
cujos da daquela daquele das de dela delas dele deles depois desde dessa desse desta deste disso
disto do dos durante e é ela elas ele eles em enquanto então entre era eram essa essas esse esses
esta está estão estar estas estava estavam este estes estou eu fazer foi fora foram há isso isto
já lá lhe lhes logo mais mas me mesma mesmas mesmo mesmos meu meus minha minhas muita muitas muito
muitos na nada não nas nela nele nem nenhum nenhuma nessa nesse nesta neste no nos nós nossa
nossas nosso nossos num numa nunca o onde os ou outra outras outro outros para pela pelas pelo
pelos per perante pode podem poder pois por porém porque pouca poucas pouco poucos qual quais
qualquer quando quanto quase que quem quê se seja sejam sem sempre sendo ser será serão seu seus
si sido sob sobre somente somos sou sua suas são também tal tanto te tem têm tenho ter teu teus
tinha tinham toda todas todo todos tu tua tudo um uma umas uns vai vez você vocês vos
"""
LANGUAGES = ("english", "german", "french", "spanish", "italian", "portuguese")


def stop_words_of(language: str) -> frozenset[str]:
    """The function words of one of `LANGUAGES`."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    ours = dict(zip(LANGUAGES[1:], (GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE), strict=True))
    return frozenset(ours[language].split()) if language in ours else ENGLISH_STOP_WORDS


def language_of(words: Iterable[str]) -> str:
    """The language of whose function words there are most; English where there are none.

    Examples
    --------
    >>> language_of("der Hund und die Katze sind in dem Haus".lower().split())
    'german'
    """
    counts = Counter(words)
    hits = [
        sum(counts[word] for word in stop_words_of(language) if word in counts)
        for language in LANGUAGES
    ]
    return LANGUAGES[hits.index(max(hits))]

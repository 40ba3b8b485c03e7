"""Small files in the layouts of the paper's datasets, with the table that each must give."""

from __future__ import annotations

import bz2
import io
import tarfile
import zipfile

import numpy as np
import scipy.io
import scipy.sparse as sp
from PIL import Image

ABSTRACTS = {
    1: "Lens growth. Crystalline lens!",
    2: "tumor growth of the lens",
    3: "tumor cells",
    4: "cells and tumor",
}


def text_files(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def table(rows, sep):
    return "\n".join(sep.join(str(cell) for cell in row) for row in rows) + "\n"


def tar(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))


def pgm(image):
    return b"P5\n# a comment\n%d %d\n255\n" % image.shape[::-1] + image.astype(np.uint8).tobytes()


def png(image):
    stream = io.BytesIO()
    Image.fromarray(image.astype(np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def images(count, shape=(4, 6), seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(count, *shape), dtype=np.uint8)


def amlall(folder):
    X = [[5, 0, 7.5], [1, 2, 3]]
    samples = "ALL_1_B-cell\r\nALL_2_T-cell\r\nAML_3\r\n" + "\0" * 50
    genes = "Name\tDescription\nM1_at\tA GENE\nM2_at\tB\n"
    text_files(
        folder,
        {
            "ALL_AML/ALL_AML_data.txt": table(X, "\t"),
            "ALL_AML/ALL_AML_samples.txt": samples,
            "ALL_AML/ALL_AML_genes.txt": genes,
        },
    )
    return np.transpose(X), [0, 1, 2], ("M1_at", "M2_at"), ("ALL-B", "ALL-T", "AML")


def duke(folder):
    (folder / "duke.bz2").write_bytes(bz2.compress(b"1 1:0.5 2:-1 3:2\n-1 1:-0.5 2:3 3:1\n"))
    return [[1, 0, 1], [0, 4, 0]], [1, 0], None, ("LIBSVM -1", "LIBSVM +1")


def khan(folder):
    log = np.array([[0.5, -1, 2], [0, 1, -2], [1, 1, 1]])
    head = '"V1","V2","V3"\n'
    text_files(
        folder,
        {
            "Khan_xtrain.csv": head + table(log[:2], ","),
            "Khan_xtest.csv": head + table(log[2:], ","),
            "Khan_ytrain.csv": '"x"\n2\n4\n',
            "Khan_ytest.csv": '"x"\n1\n',
        },
    )
    return np.exp(log), [1, 3, 0], ("V1", "V2", "V3"), ("BL", "EWS", "NB", "RMS")


def cancer(folder):
    signed = np.array([[-3.0, 1, 2, 0], [10, 20, -5, 0]])
    text_files(
        folder,
        {
            "14cancer.xtrain": table(signed[:, :3], "  "),
            "14cancer.xtest": table(signed[:, 3:], " "),
            "14cancer.ytrain": " 1 2 14\n",
            "14cancer.ytest": "3\n",
        },
    )
    return [[0, 15], [4, 25], [5, 0], [3, 5]], [0, 1, 13, 2], None, None


def rosetta(folder):
    text_files(
        folder,
        {
            "rosetta.txt": (
                "ORF\tgene\tdel A\tdel B\tdel C\nYAL1\tFUN1\t0.5\t-1\t\nYAL2\t\t0\tNaN\t2\n"
            ),
            "rosetta-labels.txt": "wall\ncycle\nwall\n",
        },
    )
    X = [[0.5, 0, 0, 0], [0, 0, 1, 0], [0, 2, 0, 0]]
    return X, [1, 0, 1], ("YAL1 up", "YAL2 up", "YAL1 down", "YAL2 down"), ("cycle", "wall")


def med(folder):
    documents = "".join(f".I {number}\n.W\n{text}\n" for number, text in ABSTRACTS.items())
    tar(
        folder / "med.tar.gz",
        {
            "MED.ALL": documents,
            "MED.REL": "1 0 1 1\n1 0 2 1\n2 0 2 1\n2 0 3 1\n",
            "MED.QRY": ".I 1\n",
        },
    )
    X = [[0, 1, 2, 0], [0, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1]]
    return X, [0, 0, 1, 2], ("cells", "growth", "lens", "tumor"), ("query 1", "query 2", "no query")


def citeseer(folder):
    tar(
        folder / "citeseer.tgz",
        {
            "citeseer/citeseer.content": "p1\t0\t1\t1\tDB\np2\t1\t0\t0\tAI\n",
            "citeseer/citeseer.cites": "p1 p2\n",
        },
    )
    return [[0, 1, 1], [1, 0, 0]], [2, 1], None, ("Agents", "AI", "DB", "IR", "ML", "HCI")


def webkb4(folder):
    header = "Date: Monday\nContent-type: text/html\n\n"
    tar(
        folder / "webkb-data.gtar.gz",
        {
            "webkb/course/cornell/http:^^a": (
                header + "<html><b>Homework</b> &amp; homework grades</html>"
            ),
            "webkb/faculty/texas/http:^^b": header + "<title>Professor</title> grades",
            "webkb/other/texas/http:^^c": header + "spam",
            "webkb/student/texas/http:^^d": header + "<html></html>",
        },
    )
    return (
        [[1, 2, 0], [1, 0, 1]],
        [2, 1],
        ("grades", "homework", "professor"),
        ("student", "faculty", "course", "project"),
    )


def sectors(folder):
    text_files(
        folder,
        {
            "7sectors/energy.sector/coal/x": "<p>coal oil coal",
            "7sectors/utilities.sector/y": "water",
            "7sectors/README": "readme",
        },
    )
    return [[2, 1, 0], [0, 0, 1]], [1, 6], ("coal", "oil", "water"), None


def reuters(folder, name="Reuters21578.mat"):
    counts = sp.csc_matrix([[0.0, 2, 1], [3, 0, 0], [0, 0, 5]])
    scipy.io.savemat(
        folder / name, {"fea": counts, "gnd": np.array([[1], [2], [1]])}, do_compression=True
    )
    return counts.toarray(), [0, 1, 0], None, None


def rcv1(folder):
    return reuters(folder, "RCV1_4Class.mat")


def orl(folder):
    pixels = images(4)
    names = ("s1/1", "s1/10", "s2/1", "s10/2")
    text_files(
        folder,
        {f"ORL_faces/{name}.pgm": pgm(image) for name, image in zip(names, pixels, strict=True)},
    )
    return pixels.reshape(4, -1), [0, 0, 1, 2], None, ("s1", "s2", "s10")


def umist(folder):
    pixels = images(3)
    people = np.empty((1, 2), dtype=object)
    people[0, 0], people[0, 1] = np.moveaxis(pixels[:2], 0, 2), np.moveaxis(pixels[2:], 0, 2)
    scipy.io.savemat(folder / "umist_cropped.mat", {"facedat": people}, do_compression=True)
    return pixels.reshape(3, -1), [0, 0, 1], None, None


def yaleb(folder):
    pixels = images(4)
    files = {
        f"CroppedYale/yaleB01/yaleB01_P00A{at}.pgm": pgm(image)
        for at, image in zip(("+000E+00", "-070E-35"), pixels, strict=False)
    }
    files["CroppedYale/yaleB02/yaleB02_P00A+000E+00.pgm.bad"] = pgm(pixels[2])
    files |= {
        f"CroppedYale/yaleB02/yaleB02_P00A{at}.pgm": pgm(pixels[3])
        for at in ("+085E+00", "+000E+90")
    }
    files["CroppedYale/yaleB02/yaleB02_P00_Ambient.pgm"] = pgm(images(1, (9, 9))[0])
    zipped(folder / "CroppedYale.zip", files)
    return pixels[:3].reshape(3, -1), [0, 0, 1], None, ("yaleB01", "yaleB02")


def coil20(folder):
    pixels = images(4)
    names = ("obj1__0", "obj1__10", "obj2__3", "obj10__3")
    zipped(
        folder / "coil-20-proc.zip",
        {
            f"coil-20-proc/{name}.png": png(image)
            for name, image in zip(names[::-1], pixels[::-1], strict=True)
        },
    )
    return pixels.reshape(4, -1), [0, 0, 1, 2], None, ("obj1", "obj2", "obj10")


def curetgrey(folder):
    pixels = images(3)
    names = ("sample01/01-01", "sample01/01-02", "sample02/02-01")
    zipped(
        folder / "curetgrey.zip",
        {f"curetgrey/{name}.png": png(image) for name, image in zip(names, pixels, strict=True)},
    )
    p = pixels.astype(float)
    means = (p[:, ::2, ::2] + p[:, 1::2, ::2] + p[:, ::2, 1::2] + p[:, 1::2, 1::2]) / 4
    return means.reshape(3, -1), [0, 0, 1], None, ("sample01", "sample02")


WRITERS = {
    "AMLALL": amlall,
    "DUKE": duke,
    "KHAN": khan,
    "CANCER": cancer,
    "ROSETTA": rosetta,
    "MED": med,
    "CITESEER": citeseer,
    "WEBKB4": webkb4,
    "7SECTORS": sectors,
    "REUTERS": reuters,
    "RCV1": rcv1,
    "ORL": orl,
    "UMIST": umist,
    "YALEB": yaleb,
    "COIL-20": coil20,
    "CURETGREY": curetgrey,
}

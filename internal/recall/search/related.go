package search

import (
	"slices"
	"strings"
	"sync"
)

// relatedWords are words of everyday English that say much the same or are of the same subject, one group a line: a
// picture is a photo, and who flies uses an airport. They were written down for no collection in particular; a word
// may be in several groups.
const relatedWords = `
add append insert attach
airline airport flight flights fly aviation plane
album song track music artist playlist singer lyrics band tune
allergy illness disease symptom medical doctor patient clinic hospital diagnosis medicine health
analyze analyse examine inspect evaluate assess review audit
animal pet dog cat puppy wildlife
answer reply respond response
apartment house home property estate rent realtor housing mortgage
app application software program
arrange organize organise schedule plan
article blog post story newspaper news headline journalism
astrology horoscope zodiac tarot fortune
attorney lawyer legal law court lawsuit
author writer book novel literature reading library
auto automobile car vehicle motor drive truck
award prize winner
baby child kid toddler parent infant
bank account balance loan credit debit
beautiful attractive pretty style fashion outfit clothes clothing wardrobe dress wear
beer wine cocktail drink beverage liquor
begin start launch initiate open
bill invoice receipt payment pay charge
biology chemistry physics science scientific research
bitcoin crypto cryptocurrency blockchain token coin wallet ethereum
book reserve reservation booking
boss manager employer employee staff colleague worker
bug error fault issue defect crash
build construct create make generate produce
business company firm enterprise corporation organization startup
buy purchase shop shopping order store product merchandise
calculate compute calculator arithmetic math maths mathematics equation algebra sum
calendar appointment meeting event agenda schedule
calorie nutrition diet food meal eat weight
cancel abort stop terminate end
career job employment work vacancy occupation hire recruit resume cv
celebrate birthday party anniversary wedding
change modify alter edit update adjust
chart graph diagram plot visualize visualise visualization
chat talk conversation converse discuss message
cheap affordable bargain discount deal coupon promo voucher sale saving
check verify validate confirm test
choose pick select decide choice
cinema movie film actor director television tv show series episode
city town place location area region neighborhood
class lesson course lecture teach teacher tutor learn study student school university education
climate weather temperature forecast rain snow wind storm humidity
code coding programming developer script program software
coin currency money exchange dollar euro
combine merge join unite concatenate
compare comparison contrast versus difference
compress zip shrink archive
computer laptop pc device hardware
connect link join attach
convert transform translate conversion
cook recipe dish ingredient kitchen meal cuisine
copy duplicate clone replicate
cost price fee rate expense
count number amount quantity total
country nation land
customer client buyer consumer
danger risk hazard threat
data dataset statistics figures information
date day time calendar
delete remove erase discard drop
delivery shipping shipment parcel package courier
describe explain clarify description
design draw drawing sketch illustrate art artwork paint logo
destination trip travel journey vacation holiday tour tourist tourism itinerary sightseeing
dictionary vocabulary word definition meaning synonym thesaurus grammar spelling
directions route map navigate navigation location
disaster earthquake emergency hurricane flood
document file pdf paper
domain website site web page url link internet
donate charity volunteer
download fetch retrieve get obtain
earn income salary wage revenue
economy economic finance financial market
election vote politics political government president
email mail inbox message
energy electricity power solar
english language translate translation translator speak foreign
environment ecology carbon emission pollution sustainability
exam test quiz question trivia assessment
exercise workout fitness gym training muscle
face portrait avatar selfie
famous celebrity popular trending
fast quick rapid speed
find search seek look locate discover
flower plant garden gardening tree
food restaurant dining dinner lunch eat cafe menu
football soccer basketball baseball tennis sport sports league match team player
free complimentary gratis
friend companion buddy
fun funny humor humour joke laugh comedy entertain entertainment meme
game play gaming player puzzle
gift present surprise
goal target objective aim
guide tutorial instruction manual help
hotel accommodation lodging hostel stay room
house furniture interior decor decorate
idea suggestion inspiration brainstorm
image picture photo photograph photography visual
improve enhance optimize optimise better
increase grow raise
insurance coverage policy insure
invest investment investor stock stocks share shares equity portfolio fund trading trade
keyword seo ranking marketing advertise advertisement advertising campaign promote
list enumerate catalog catalogue
love romance dating relationship partner
lottery lotto gamble gambling bet betting casino
meditate meditation mindfulness relax stress anxiety therapy mental
memory remember recall note reminder
mobile phone telephone call smartphone
museum gallery exhibition
network internet connection wifi
password security secure encrypt privacy
patent trademark invention
people person human individual
podcast radio audio sound voice speech listen
poem poetry poet rhyme verse
predict prediction forecast
presentation slide slides slideshow powerpoint
print printer
problem issue trouble difficulty
professor academic scholar paper journal citation publication research
qr barcode scan
quote quotation saying proverb
rank rating review opinion feedback
read reader reading
recommend recommendation suggest suggestion advice advise
record log register history
religion religious bible quran prayer scripture church
repair fix mend
report summary overview
rewrite paraphrase rephrase reword
safe secure protect protection
sell seller vendor auction
send deliver transmit share
sentiment emotion mood feeling
shorten abbreviate
social twitter facebook instagram tiktok followers influencer
space astronomy planet star nasa satellite moon
spreadsheet excel csv table
summarize summarise summary abstract condense digest
survey poll questionnaire
task todo chore project
tax taxes irs deduction
ticket concert event show festival
timezone clock hour
train railway rail bus metro subway transit transport transportation taxi
upload submit send
video youtube clip movie watch stream streaming
word text sentence paragraph
write compose draft essay letter
`

// everydayWords are further groups of the same kind: what people say of themselves, of each other and of their work.
// Requests to tools are found worse with them, so they count only where Query.Everyday is set.
const everydayWords = `
address street live home apartment flat house reside residence
age old birthday born birth year
aunt uncle cousin nephew niece relative family
mother mom mum father dad parent parents family
brother sister sibling twin family
wife husband spouse partner married marriage wedding girlfriend boyfriend fiancee
son daughter child children kid kids baby boy girl
grandmother grandfather grandma grandpa grandparent grandson granddaughter
pet dog cat puppy kitten hamster rabbit parrot horse animal
vet veterinarian pet animal
school kindergarten nursery daycare class teacher
boss manager supervisor lead chief head report reports
colleague coworker teammate team peer
employer company job work position role title profession occupation
salary pay wage income earn bonus raise
office desk workplace building floor room seat
remote homeoffice home telework
commute travel ride drive bike bus train tram walk
bike bicycle cycle cycling
car vehicle drive driver auto automobile van truck ev tesla volvo toyota
license licence plate registration number
garage parking park lot
breakfast lunch dinner supper meal eat food snack
vegetarian vegan meat diet eat food
allergy allergic intolerant intolerance react avoid sensitive
coffee espresso latte cappuccino caffeine tea drink beverage
alcohol wine beer sober drink
sugar sweet dessert cake chocolate candy
milk lactose dairy cheese yoghurt
bread wheat gluten celiac
nut nuts peanut peanuts almond walnut hazelnut
shellfish shrimp prawn crab lobster seafood fish
cook cooking recipe bake kitchen
restaurant cafe bistro pizzeria eat dine
favourite favorite prefer preferred love best like
hate dislike avoid loathe annoy annoying
doctor physician gp dentist clinic appointment checkup
medicine medication pill tablet drug prescription dose
ill sick illness flu cold fever disease
injury hurt pain broken knee back shoulder ankle
glasses lens lenses eyesight vision eye eyes
blood type group donor
sleep bed asleep nap wake insomnia alarm morning
exercise workout gym run running jog jogging swim swimming yoga fitness train training marathon
sport team football soccer tennis hockey ski skiing basketball club
hobby hobbies pastime spare leisure interest
music instrument piano guitar violin drum choir sing band concert
book novel read author reading
film movie series show watch cinema
game games chess boardgame console play
garden gardening plant flower grow vegetable
photo photography camera picture
language speak speaks fluent native tongue learn
norwegian english german french spanish language
nationality citizen citizenship passport country origin
city town village hometown grew up
holiday vacation trip travel journey leave pto off
flight fly plane airline airport seat aisle window
hotel stay lodging room
train rail station
passport visa id document expire expires expiry
currency money euro dollar krone pound
bank account iban card
budget spend spending cost price expense money
insurance policy insured insurer
rent landlord lease tenant mortgage
neighbour neighbor
phone telephone mobile cell number call
email mail address inbox
laptop computer macbook pc notebook machine thinkpad workstation
monitor screen display
keyboard mouse layout
phone iphone android pixel samsung handset
password passphrase login secret credential
wifi wireless network internet router
editor ide vim emacs vscode
language go python rust java javascript typescript programming code
database postgres postgresql mysql sqlite redis store
cloud aws gcp azure hosting host server
deploy deployment release ship rollout launch publish
rollback revert undo
bug defect error issue problem broken fail failure crash fault
outage incident downtime down pager oncall unavailable
oncall pager rota duty shift standby
alert alarm monitoring notification warn
backup restore snapshot copy
test tests testing qa
review reviewer approve approval pr pull merge
branch main master trunk
ticket task issue jira todo
sprint iteration scrum standup retro retrospective
standup daily meeting sync
meeting call appointment conference session talk
deadline due date until end finish
agenda topic minutes notes
decide decision agree agreed choose chose pick settle settled
plan planning roadmap schedule
customer client account user
contract agreement sign signed
invoice bill payment pay
supplier vendor provider
hire hiring candidate interview recruit join joined
fire quit leave left resign resigned
vacation holiday absent away ooo leave
presentation slides deck talk demo
document doc wiki page confluence
spreadsheet sheet excel table
logo colour color design brand
size shoe shirt clothes wear
colour color blue green red yellow black
tall height cm long
weight kg kilo heavy
left-handed lefthanded right-handed hand handed
zone timezone time clock utc cet
early late morning evening night afternoon
weekday weekend monday friday saturday sunday
unit units metric imperial celsius fahrenheit kilometre mile
temperature celsius fahrenheit degree degrees warm cold hot
format style markdown bullet bullets short brief concise long detailed
tone formal informal polite casual
name nickname called call named
pronoun pronouns she he they
gift present birthday
anniversary wedding celebrate
christmas easter holiday ramadan eid
religion church mosque faith pray
smoke smoking cigarette
volunteer charity donate
study studies studied degree university college graduate graduated thesis student
course lesson class training learn learning
spouse works job
move moved moving relocate relocated
buy bought purchase purchased order ordered
sell sold
lose lost missing
find found
key keys door lock code
umbrella rain wet
noise noisy loud quiet
scared afraid fear phobia frightened
happy glad joy
angry upset annoyed
why because reason cause
replace replaced swap switch switched change
slow latency performance speed fast
expensive costly cheap price
broken repair fix fixed
start begin began started
stop end ended finished
increase rise grew raise higher
decrease reduce drop lower cut
marry married marriage wedding anniversary bride groom
profession occupation architect pilot nurse engineer lawyer teacher carpenter electrician developer designer
ceo cto cfo director president chief executive boss head founder
complaint complain grumble moan criticize criticism feedback
discount rebate reduction coupon sale
signature sign signed signing approve
evacuation evacuate fire drill alarm exit
heating heat heater radiator warm warmth boiler
leak leaks water drip wet pipe plumber
roof ceiling attic wall window door
childhood child grew raised youth
shares share stock stocks equity invest
present gift wish wishes surprise
operating system linux windows macos ubuntu fedora debian
travel expense expenses reimbursement trip
incident outage duty call pager
ring phone call telephone dial
talk speak language fluent conversation
kids children sons daughters offspring
degree studied study university master bachelor
example examples sample samples snippet
commute work office bus tram subway
electrician electricity power current energy
tenant rent lease landlord
mortgage loan interest debt credit
savings save saving deposit
lawyer legal attorney advocate solicitor
tax taxes accountant adviser
accounting finance bookkeeping invoices
marketing campaign advertising newsletter
office headquarters building site location
lift elevator stairs floor
toilet bathroom shower bath
bedroom bed sleep mattress
fridge freezer refrigerator kitchen
rubbish trash garbage waste bin bins recycling
gardener lawn plants flowers water
babysitter nanny sitter childcare
homework school exam pupil
toothbrush teeth tooth dentist
heart lung liver kidney stomach surgery operation
asthma diabetes migraine headache epilepsy condition
vaccine vaccination shot immunized
hearing deaf ear ears
colourblind blind colours vision
hair haircut barber hairdresser
clothing jacket coat trousers shirt dress size
ring jewellery necklace watch
museum exhibition gallery art
theatre opera ballet play stage
hike hiking mountain trail walk
climb climbing boulder heights
sail sailing boat ship sea
fish fishing angling
hunt hunting
knit knitting sew sewing craft
paint painting draw drawing
podcast radio listen
newspaper magazine subscription subscribe
streaming netflix spotify
backup backups restore disaster recovery
log logs logging retention
certificate tls ssl expires expiry
domain dns registrar
firewall vpn network port
queue kafka rabbitmq broker
cache redis memcached
container docker kubernetes cluster pod
pipeline ci build jenkins actions
version release tag changelog
migration migrate upgrade update
feature flag toggle rollout
encrypt encryption key secret vault
permission access role rights allowed may
forbidden banned prohibited allowed must
limit maximum quota cap threshold
price fee rate tariff cost
warranty guarantee repair
shipment shipping delivery parcel courier
warehouse stock inventory storage
competitor rival competition
investor funding board shareholder
strategy goal target objective okr
training onboarding newcomer introduction
intern trainee apprentice student
retire retirement pension
probation notice resign quit
overtime hours working time
celebrate party dinner event
`

// related returns the related stems by stem. The table is made at the first search that needs it.
var related = sync.OnceValue(func() map[string][]string { return relate(relatedWords) })

// everyday returns the related stems by stem, those of everydayWords included.
var everyday = sync.OnceValue(func() map[string][]string { return relate(relatedWords + everydayWords) })

// relate returns, for the stem of every word, the stems of all others of its groups.
func relate(groups string) map[string][]string {
	m := map[string][]string{}
	for line := range strings.Lines(groups) {
		var stems []string
		for _, w := range strings.Fields(line) {
			stems = append(stems, stem(w))
		}
		for _, s := range stems {
			for _, other := range stems {
				if other != s && !slices.Contains(m[s], other) {
					m[s] = append(m[s], other)
				}
			}
		}
	}
	return m
}
